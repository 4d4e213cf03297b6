"""Texts that are cut: no part of a credential is left, as it is found before the cut.

`odfbuild.texts.redaction.excerpt` and `odfbuild.errors.bounded` cut texts that others wrote.  Every
other slice with a fixed length, but for those of lists, is here with why no part of a secret is
left.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.process.program import last_words
from odfbuild.texts.known_secrets import hidden
from odfbuild.texts.redaction import excerpt, hiding, redacted
from tests.support.projects import REPOSITORY

PACKAGE = REPOSITORY / "odfbuild"
SECRET = "hunter2-of-the-north"
DIGEST = "a digest"
DATA = "what is read or compared, not what is shown"
REDACTED = "redacted before"
OWN = "a text of odfbuild's own, or a time"
SLICES = {
    "app/plan/make_plan.py": {"revision.commit[:12]": DIGEST},
    "cli/commands/check/deps.py": {"pinned.commit[:10]": DIGEST, "pinned.tree[5:15]": DIGEST},
    "cli/render/diagnostics.py": {"line[first:first + widest]": REDACTED},
    "cli/formats/markdown.py": {
        "text[:len(text) * 9 // 10]": OWN,
        "' '.join(text.split())[:_LONGEST_MARKER]": OWN,
    },
    "cli/page/catalogue/data.py": {
        "text[:10 * LONGEST_QUERY]": "ten times what is shown of it",
        "(each.info.keywords or ())[:50]": "a list",
    },
    "cli/page/catalogue/plan.py": {
        "changed[:MOST_DETAILED]": "a list",
        "changed[MOST_DETAILED:MOST_LISTED]": "a list",
        "rest[:MOST_LISTED]": "a list",
    },
    "cli/page/catalogue/run.py": {"shown[:MOST_STEPS]": "a list"},
    "executors/engine/spark/cluster/package_archive.py": {
        "hashlib.sha256(content).hexdigest()[:16]": DIGEST,
    },
    "executors/engine/spark/cluster/probe.py": {"token[:8]": DATA, "unlike[:8]": "a list"},
    "cli/commands/plan/inspect.py": {"data[at:at + 16]": DATA, "row[:8]": DATA},
    "cli/commands/author/new.py": {"data[:MAX_SAMPLE]": DATA},
    "cli/commands/apply/runs.py": {
        "str(time)[:19]": OWN,
        "text[-_HASH_END:]": DIGEST,
    },
    "cli/commands/read/status.py": {"str(time)[:19]": OWN},
    "cli/terminal/streams.py": {"line[-_LONGEST:]": DATA},
    "errors.py": {"line[:head]": REDACTED, "line[tail:]": REDACTED},
    "executors/ingest/read/bad_rows_report.py": {
        "_NOT_IN_NAMES.sub('_', name).strip('._')[-_LONGEST_NAME:]": REDACTED,
    },
    "executors/ingest/fetch/container.py": {"image.digest[:19]": DIGEST},
    "executors/ingest/fetch/ftp.py": {
        "redact(one_line(text), request)[:200]": REDACTED,
        "found[:most]": DATA,
        "text[6:8]": DATA,
        "text[8:10]": DATA,
        "text[10:12]": DATA,
        "text[12:14]": DATA,
        "text[:14]": DATA,
    },
    "executors/ingest/fetch/http.py": {
        "text[:_EXCERPT]": REDACTED,
        "said[:_EXCERPT]": REDACTED,
        "text[:max(0, len(text) - _LONGEST_SECRET)]": REDACTED,
        "found[:most]": DATA,
    },
    "executors/process/limits.py": {"text[:20]": DATA},
    "executors/ingest/fetch/download.py": {
        "re.sub('[^A-Za-z0-9._-]+', '_', last)[-_LONGEST_NAME:]": REDACTED
    },
    "executors/engine/contract/client.py": {"text.splitlines()[:_MOST_LINES]": "a list"},
    "executors/engine/contract/container.py": {"self.printed[:-_KEPT]": DATA},
    "executors/process/program.py": {
        "text[-_SHOWN:]": REDACTED,
        "said[:-_KEPT]": DATA,
    },
    "executors/ingest/read/text.py": {"first[:64]": DATA},
    "executors/ingest/sample/__init__.py": {"inner[:MAX_SAMPLE]": DATA},
    "executors/ingest/sample/csv.py": {"data[:4096]": DATA, "text[:_START]": DATA},
    "executors/engine/spark/jvm/archive.py": {
        "hashlib.sha256('\\n'.join(bound).encode()).hexdigest()[:16]": DIGEST,
    },
    "executors/engine/spark/jvm/keeper.py": {"written[8:8 + length]": DATA},
    "executors/engine/spark/jvm/launch.py": {"written[8:8 + length]": DATA},
    "executors/engine/spark/jvm/resident.py": {
        "hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]": DIGEST,
        "said.hexdigest()[:16]": DIGEST,
    },
    "odf/wire/blocks.py": {"data[:_HEADER]": DATA},
    "odf/wire/reader.py": {"data[place + 6:place + 38]": DATA},
    "odf/identity.py": {"str(self)[-8:]": DIGEST},
    "executors/verify/row_difference.py": {"order[:limit]": "a list"},
    "planner/evolution/rules/renames.py": {"by_key.get(key, ())[:_MOST]": "a list"},
    "planner/plan/remote_inputs.py": {
        "id.multibase[5:5 + _SHORT]": DIGEST,
        "id.key.hex()[:8]": DIGEST,
        "sha3_256(url.encode()).digest.hex()[:_SHORT]": DIGEST,
    },
    "project/git/__init__.py": {"found[:most]": DATA},
    "project/git/revision.py": {"commit[:12]": DIGEST, "answer[at:at + _HEADER]": DATA},
    "repositories/signatures/envelope.py": {
        "(*self.signatures, *more)[:MOST_SIGNATURES]": "a list"
    },
    "repositories/signatures/keys.py": {"signature[:32]": DATA},
    "repositories/signatures/trust.py": {
        "tuple((each for each in before if each not in found.ancestry))[-MOST_UNDONE:]": "a list",
    },
    "repositories/smart/archive.py": {
        "header[124:136]": DATA,
        "header[136:148]": DATA,
        "header[148:156]": DATA,
        "header[156:157]": DATA,
        "header[257:263]": DATA,
        "header[257:265]": DATA,
        "header[345:500]": DATA,
        "header[:148]": DATA,
        "header[:_LONGEST_NAME]": DATA,
        "self._packed[self._at:self._at + _CHUNK]": DATA,
    },
    "repositories/transfer.py": {"hashlib.sha256(place.encode()).hexdigest()[:32]": DIGEST},
    "repositories/smart/client.py": {"message[start:start + _PART]": DATA},
    "serve/access.py": {"given[:len(_BEARER)]": DATA},
    "serve/application.py": {"error.text[:100]": OWN},
    "serve/smart/frames.py": {"reason.encode()[:_LONGEST_REASON]": OWN},
    "serve/settings.py": {"sha256(str(workspace.resolve()).encode()).hexdigest()[:32]": DIGEST},
    "serve/tokens.py": {"digest[:12]": DIGEST},
    "state/remote/workspace.py": {"hashlib.sha256(url.encode()).hexdigest()[:32]": DIGEST},
    "state/remote/view/cache.py": {"sha256(place.encode()).hexdigest()[:32]": DIGEST},
    "state/memory/plans.py": {"sha3_256(os.fsencode(root)).digest.hex()[:32]": DIGEST},
    "state/files/checksum.py": {"body[at:at + length]": DATA},
    "sql/columns/format_texts.py": {"day[:length]": OWN},
    "texts/redaction.py": {"text[:most - 3]": REDACTED, "form[:_SHORTEST_PART]": DATA},
    "state/chain/index.py": {"sums[at:at + _SUM_BYTES]": DATA},
}
_LENGTHS = {"most", "widest", "limit", "width", "length", "room", "head", "tail", "kept"}
_LISTS = re.compile(  # by their names: entries of them stay whole
    r"\w*s|\w*(?:found|bad|more|added|missing|renamed|grown|wrong|listed|moved|damaged|done|among)"
    r"|\w*(?:asked|whole|order|affected|ordered|left|new|old|children)"
)
_SHORT = 8  # characters; less of a credential is none


@pytest.mark.holds("server-cut")
def test_every_slice_of_a_fixed_length_is_known() -> None:
    unknown = {
        f"{module}: {cut}"
        for path in PACKAGE.rglob("*.py")
        for cut in slices(ast.parse(path.read_text("utf-8")))
        if cut not in SLICES.get(module := path.relative_to(PACKAGE).as_posix(), ())
    }
    assert unknown == set(), "excerpt() cuts what others wrote"


@pytest.mark.holds("server-cut")
def test_nothing_else_cuts_texts() -> None:
    found = Counter(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for _ in other_cuts(ast.parse(path.read_text("utf-8")))
    )
    assert found == {"cli/commands/plan/help.py": 2}  # of what odfbuild says of its own codes


def slices(tree: ast.Module) -> Iterator[str]:
    """Yield the slices that keep a number of characters, bytes or entries that is fixed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            lower, upper = node.slice.lower, node.slice.upper
            from_end = isinstance(lower, ast.UnaryOp) or lower_name(lower) in _LENGTHS
            fixed = is_fixed(upper) or (upper is None and from_end and is_fixed(lower))
            if fixed and not is_list(node.value):
                yield ast.unparse(node)


def is_list(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _LISTS.fullmatch(name) is not None
        case ast.Call(func=ast.Name(id="sorted" | "list")) | ast.List() | ast.ListComp():
            return True
        case ast.Subscript(value=inner, slice=ast.Constant()):
            return is_list(inner)
    return False


def lower_name(node: ast.expr | None) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def is_fixed(node: ast.expr | None) -> bool:
    match node:
        case ast.UnaryOp(operand=inner):
            return is_fixed(inner)
        case ast.BinOp(left=left, right=right):
            return is_fixed(left) or is_fixed(right)
        case ast.Call(args=args):
            return any(map(is_fixed, args))
        case ast.Constant(value=int(number)):
            return abs(number) >= _SHORT
        case ast.Name(id=name):
            return name.isupper() or name in _LENGTHS
        case ast.Attribute(attr=name):
            return name.isupper()
    return False


def other_cuts(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what else makes texts shorter: `shorten`, and formats with a precision."""
    for node in ast.walk(tree):
        match node:
            case ast.alias(name="shorten") | ast.Name(id="shorten") | ast.Attribute(attr="shorten"):
                yield node
            case ast.FormattedValue(format_spec=ast.JoinedStr() as form) if re.search(
                r"\.(?:\d+|\{.*\})s?'\Z", ast.unparse(form)
            ):
                yield node
            case ast.Constant(value=str(text)) if re.search(r"%-?\d*\.\d+s", text):
                yield node


def said(text: str) -> str:
    return OdfBuildError(text, "why", "fix").what


def found(text: str) -> str:
    return Diagnostic(code="a", what=text, why="", fix="").what


@pytest.mark.holds("server-page")
@pytest.mark.parametrize(
    "cut",
    [
        said,
        found,
        redacted,
        lambda text: said(f"{text[:96]} ..."),  # as Arrow cuts rows
        lambda text: said(f"'{text[:96]}'"),
        lambda text: said(repr(excerpt(text, 63))),
        lambda text: said(last_words(text.encode())),
    ],
)
def test_nothing_is_left_of_what_is_to_be_hidden(cut: object) -> None:
    assert callable(cut)
    for before in (*range(40, 100), 700, 780, 1540, 1560, 1990):
        for after in ("", " it goes on " + "y" * 2400):
            with hiding([SECRET]):
                shown = cut(f"{'x' * before}{SECRET}{after}")
            assert not [at for at in range(len(SECRET) - 4) if SECRET[at : at + 5] in shown], shown


@pytest.mark.holds("server-page")
def test_what_nobody_expected_is_hidden_as_well() -> None:
    with pytest.raises(ValueError, match=r"^no number: \*\*\*$"), hiding([SECRET]):
        int_of(SECRET)
    assert hidden(SECRET) == SECRET


def int_of(text: str) -> int:
    raise ValueError(f"no number: {text}")


def test_short_words_stay() -> None:
    with hiding(["", "a", "de", SECRET]):
        assert said("a code of de, the north") == "a code of de, the north"
