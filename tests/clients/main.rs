//! The client programs of the documentation. They need Python, Node.js, PHP, Java, Go and Ruby,
//! with the libraries that `scripts/setup.sh clients` installs.

mod clients;
mod existing_apps;
mod javascript;
mod route;
