"""The page of results."""


def page(found: dict) -> str:
    return ""
