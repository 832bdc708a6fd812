"""A report that was written, as tests read it."""

from html.parser import HTMLParser

from nearmetal.store.run_folder import RunFolder


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def contents(folder: RunFolder) -> dict[str, bytes]:
    """The page and everything in report/, by name."""
    files = {path.name: path.read_bytes() for path in sorted(folder.report.iterdir())}
    return {"report.html": folder.page.read_bytes(), **files}
