from sqlalchemy import URL, BigInteger, MetaData, Text, create_engine, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# The rest comes from PGHOST, PGPORT, PGUSER, PGDATABASE, which libpq reads.
engine = create_engine(URL.create("postgresql+psycopg"))


class Base(DeclarativeBase):
    metadata = MetaData(schema="insta5")


class Photo(Base):
    __tablename__ = "photos"

    # With a server_default it is not a serial. The schema makes it independent of search_path.
    id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=func.insta5.next_id(monotonic=True)
    )
    title: Mapped[str] = mapped_column(Text)
