"""The models that come as packages, as the window lists them."""

from __future__ import annotations

from llm_lite.desktop.features.program.choices import CatalogueEntry
from llm_lite.desktop.language.incoming import fit_to_show


def catalogue() -> tuple[CatalogueEntry, ...]:
    from llm_lite.core.hub import catalog

    found = (
        CatalogueEntry(
            source=entry.name,
            path=str(entry.path or ""),
            title=entry.title,
            description=entry.licence if entry.path else entry.command,
            bytes=entry.size or 0,
        )
        for entry in catalog.entries()
    )
    return tuple(map(fit_to_show, found))
