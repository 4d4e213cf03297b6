"""Statement of a query for an engine elsewhere: a text in a dialect that nothing here reads.

It may do anything with its inputs, so it looks at all rows, and what it gives is not known before
it ran.  Two of them say the same if they are equal.
"""

from odfbuild.sql.text.shape import Literal, Name, TextPlace, Unknown
from odfbuild.sql.text.statement import Statement


def read(text: str, engine: str) -> Statement:
    """Return what is known of a text for an engine: nothing that lets it work row by row."""
    place = TextPlace(0, 1, 1, 1)
    return Statement(
        text=text,
        tokens=(),
        selects=(),
        stars=(),
        alias_lists=(),
        tables=(),
        columns=(),
        aliases=(),
        relations=frozenset(),
        calls=(),
        empty_calls=(),
        words=(),
        bars=(Name(f"the dialect of {engine}", place),),
        outputs=None,
        ordered=False,
        unites=False,
        shape=Unknown(f"a query of {engine}", (Literal("text", text),)),
    )
