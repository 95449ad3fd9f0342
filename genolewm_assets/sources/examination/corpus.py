"""Look at the Parquet files of a corpus source."""

from __future__ import annotations

from genolewm_assets.errors import InputError
from genolewm_assets.sources.corpus import list_corpus_files, look_at_corpus_file
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import ATTEMPTS, local_path
from genolewm_assets.sources.files import ask_remote

#: Number of files of one source whose columns are looked at.
MAX_FILES = 1_000


def look_at_corpus(url: str) -> Answers:
    """Look at the footers of the Parquet files of a file, folder or pattern: readable, with the columns of a layout."""
    files = list_corpus_files(url)
    for file in files[:MAX_FILES]:
        path = local_path(file)
        if path is not None:
            try:
                yield from look_at_corpus_file(path)
            except InputError as error:
                yield error
        elif file == url:
            # Folders and patterns were listed by the server.
            ask_remote(url, attempts=ATTEMPTS)
    if len(files) > MAX_FILES:
        yield f"{len(files) - MAX_FILES:,} of {len(files):,} files were not looked at"
