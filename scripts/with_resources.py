#!/usr/bin/env python3
"""with_resources.py REPOSITORY: copies a META.json from stdin to stdout, with the addresses of this repository."""

import json
import sys

repository = sys.argv[1].removesuffix("/").removesuffix(".git")
meta = json.load(sys.stdin)
meta["resources"] = {
    "homepage": repository,
    "bugtracker": {"web": f"{repository}/issues"},
    "repository": {"url": f"{repository}.git", "web": repository, "type": "git"},
}
json.dump(meta, sys.stdout, indent=3)
print()
