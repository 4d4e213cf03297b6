"""The commands and their registry: name, module and help of each, in the order of the help.

A command is a function in its module, called as the command is: `explain_row` for `explain-row`,
`list_` where Python has a `list`.  Its first parameter is a Given, if it takes the options of a
project; it returns the exit code.  `help` is the first line of its docstring, so that all commands
can be listed without a module of theirs; the list has its first sentence.
"""

# ruff: noqa: E501 - a line a command, however long

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredCommand:
    """A command: its name, its module below this package, its help, and settings of its parser."""

    name: str
    module: str
    help: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredGroup:
    """Commands behind one word; `default` is the one that is meant where none is named.

    With `no_args_is_help` the word alone shows the help.
    """

    name: str
    help: str
    commands: tuple[RegisteredCommand, ...]
    default: str | None = None
    no_args_is_help: bool = False


# fmt: off
SECTIONS: Mapping[str, tuple[RegisteredCommand | RegisteredGroup, ...]] = {
    "Definitions": (
        RegisteredCommand("init", "author.init", "Lay out a new project with a small example in it."),
        RegisteredCommand("new", "author.new", "Write the definition of a dataset from a sample of its data."),
        RegisteredCommand("import", "author.import_", "Take in an existing chain, and write its definition."),
        RegisteredCommand("fmt", "author.fmt", "Lay out definitions in one way: indentation, order of keys. Comments stay."),
        RegisteredCommand("mv", "author.mv", "Rename a dataset, its inputs too, with a moved: entry."),
        RegisteredCommand("list", "author.list", "List the datasets of the project: kind, tags, owner, file. Inputs and classes, too."),
        RegisteredCommand("graph", "author.graph", "Draw which dataset reads which."),
        RegisteredCommand("render", "author.render", "Print the YAML of datasets after templating. What it includes is in it."),
        RegisteredCommand("convert", "author.convert", "Turn a manifest into YAML, JSON or FlatBuffers. What a file is, its content says."),
        RegisteredCommand("upgrade", "author.upgrade", "Rewrite manifests of older specifications. Comments and layout are kept."),
        RegisteredCommand("schema", "author.schema", "Print a JSON Schema for editors, or list the kinds."),
        RegisteredCommand("lsp", "editor.lsp", "Answer an editor, as the Language Server Protocol has it. It speaks over stdin and stdout."),
    ),
    "Checks": (
        RegisteredCommand("check", "check.check", "Report everything that is wrong with the project. Needs no network and starts no JVM."),
        RegisteredCommand("test", "check.test", "Run the tests of queries, and the checks of rows. Only checks need a workspace."),
        RegisteredCommand("lock", "check.lock", "Write odfbuild.lock: packages, inputs elsewhere, columns."),
        RegisteredGroup(
            "deps",
            "Fetch the packages of the project.",
            (
                RegisteredCommand("install", "check.deps", "Fetch what odfbuild.lock pins into packages/."),
                RegisteredCommand("update", "check.deps", "Look revisions up again, pin them in odfbuild.lock, and fetch them."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("accept", "author.accept", "Accept a finding of the gate, in odfbuild.yaml. It is reviewed in git."),
        RegisteredCommand("verify", "check.verify", "Check that blocks, files and rows are as recorded. Hashes, links and rules are checked."),
        RegisteredCommand("doctor", "check.doctor", "Say whether this machine and the workspace are in order. It names what to do if not."),
    ),
    "Plan and build": (
        RegisteredCommand("plan", "plan.plan", "Say what would be appended, what would run, and why. Changes nothing."),
        RegisteredCommand("apply", "apply.apply", "Plan, ask, and do what was planned; or do a saved plan."),
        RegisteredCommand("run", "apply.run", "Take in what sources have, and derive what follows. Definitions stay as they are."),
        RegisteredCommand("ingest", "apply.ingest", "Push files into a root dataset, each as one commit. A push source takes them."),
        RegisteredCommand("watermark", "apply.watermark", "Show the watermark of a dataset, or move that of a root. It never goes back.", {"ignore_unknown_options": True}),
        RegisteredCommand("runs", "apply.runs", "List past runs, or show the steps of one. Times and heads are shown, too."),
        RegisteredCommand("undo", "apply.undo", "Set every dataset back to where a run found it. What the run made is given up."),
        RegisteredCommand("explain", "plan.explain", "Say why a dataset will or will not run. It goes down to files and lines."),
        RegisteredCommand("diff", "plan.diff", "Show what differs between two states of a dataset. By definition and schema, or by rows."),
        RegisteredCommand("drift", "plan.drift", "Say where chains are not what this project made of them. Reads only; exit code 2 if so."),
        RegisteredGroup(
            "ci",
            "Write what CI shows of a saved plan, as markdown.",
            (
                RegisteredCommand("comment", "plan.ci", "Write the body of one pull request comment, as markdown."),
                RegisteredCommand("summary", "plan.ci", "Write a summary of a run, as markdown: append it to $GITHUB_STEP_SUMMARY."),
            ),
        ),
    ),
    "Read": (
        RegisteredCommand("status", "read.status", "Say where datasets stand: head, watermark, lag, result. Who holds a lock is said, too."),
        RegisteredCommand("show", "read.show", "Show rows of a dataset, as recorded or as they stand."),
        RegisteredCommand("sql", "read.sql", "Query datasets by name; nothing is changed."),
        RegisteredCommand("log", "read.log", "Show the metadata chain of a dataset, newest block first."),
        RegisteredCommand("explain-row", "read.explain_row", "Say which rows a record was made of, and why. It goes by queries down to the sources."),
        RegisteredCommand("impact", "read.impact", "Say what a change of a dataset or a column would touch."),
        RegisteredGroup(
            "lineage",
            "Show where a dataset comes from, and what is made of it. What chains cannot know may be noted.",
            (
                RegisteredCommand("show", "read.lineage", "Show the lineage of a dataset. `odfbuild lineage NAME` is short for this."),
                RegisteredCommand("add", "read.lineage", "Note that a dataset was made of another, which may be anywhere."),
                RegisteredCommand("remove", "read.lineage", "Take back what was noted with `add`. What chains say stays."),
                RegisteredCommand("home", "read.lineage", "Show or set the home of a dataset: the place, index or repository that keeps it."),
                RegisteredCommand("import", "read.lineage", "Take in relations and homes from files: all of them, or nothing."),
                RegisteredCommand("export", "read.lineage", "Print all relations and homes as CSV, or what one dataset was made of as in its document."),
            ),
            default="show",
            no_args_is_help=True,
        ),
        RegisteredGroup(
            "inspect",
            "Look at one block, schema, query or saved plan.",
            (
                RegisteredCommand("block", "plan.inspect", "Show one block whole, as a manifest or byte by byte."),
                RegisteredCommand("schema", "plan.inspect", "Show the columns of a dataset, system columns included."),
                RegisteredCommand("query", "plan.inspect", "Show the query that makes a dataset: engine, inputs and steps as they are in force."),
                RegisteredCommand("plan", "plan.inspect", "Print a saved plan in any format; a warning says if it is stale."),
            ),
        ),
        RegisteredGroup(
            "docs",
            "Make a page of the project to look at.",
            (
                RegisteredCommand("build", "read.docs", "Write the catalogue of the project as one offline HTML file: datasets, graph, a plan."),
            ),
            no_args_is_help=True,
        ),
    ),
    "Maintenance": (
        RegisteredCommand("rebuild", "apply.rebuild", "Make the rows of derivative datasets from their inputs again."),
        RegisteredCommand("reset", "apply.reset", "Make an earlier block the last one of datasets. What came after it is given up."),
        RegisteredCommand("compact", "apply.compact", "Rewrite chains with slices merged, or without their data. Readers may diverge."),
        RegisteredCommand("retire", "apply.retire", "Take away datasets that are no longer declared. Their files stay until gc."),
        RegisteredCommand("gc", "manage.gc", "Free the space of what nothing reaches any more."),
        RegisteredGroup(
            "ref",
            "Name blocks of a dataset: branches that share its objects.",
            (
                RegisteredCommand("list", "manage.ref", "List the references of a dataset, and how far each is from the head."),
                RegisteredCommand("set", "manage.ref", "Make a reference to a block, or move one forward. The head is moved by apply only."),
                RegisteredCommand("delete", "manage.ref", "Delete a reference. Blocks and data stay."),
            ),
        ),
        RegisteredCommand("unlock", "manage.unlock", "Free a lease of a workspace in an object store. It does not matter who has it."),
        RegisteredGroup(
            "workspace",
            "Bring the workspace to another place.",
            (
                RegisteredCommand("move", "manage.workspace", "Copy the workspace to a folder or an object store, byte for byte; the old one stays."),
            ),
            no_args_is_help=True,
        ),
    ),
    "Sharing": (
        RegisteredGroup(
            "repo",
            "Name, try and list repositories of datasets.",
            (
                RegisteredCommand("list", "share.repo", "List the repositories of the project and of your profiles."),
                RegisteredCommand("add", "share.repo", "Add a repository to odfbuild.yaml, or to your own profiles.yaml."),
                RegisteredCommand("check", "share.repo", "Say whether repositories can be read, and whether it is safe to push to them."),
                RegisteredCommand("index", "share.repo", "Rebuild the index of repositories, which search and look-ups of ids read."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("search", "share.search", "List the datasets of repositories. They are found by what they publish of themselves."),
        RegisteredCommand("clone", "share.pull", "Copy a dataset of a repository into the workspace."),
        RegisteredCommand("pull", "share.pull", "Bring what is new of datasets elsewhere. All of it is checked before any is visible."),
        RegisteredCommand("push", "share.push", "Bring to a repository what it lacks of datasets. The head comes last, and is signed."),
        RegisteredCommand("sign", "share.sign", "Sign the heads of datasets. Push does so by itself where the key is at hand."),
        RegisteredCommand("delegate", "share.delegate", "Let another key sign heads of a dataset for a while. Without a key, list who may."),
        RegisteredGroup(
            "key",
            "List private keys, take them elsewhere, and bring them in.",
            (
                RegisteredCommand("list", "manage.key", "List the private keys of the workspace, and warn of those that others can read."),
                RegisteredCommand("new", "manage.key", "Make a working key, which a dataset's key lets sign for it, and print its did:key."),
                RegisteredCommand("export", "manage.key", "Write the private key of a dataset to a file that only you can read."),
                RegisteredCommand("import", "manage.key", "Take a private key into the workspace. One that is sealed stays so."),
            ),
        ),
        RegisteredCommand("serve", "share.serve", "Serve the datasets of the workspace to others. They pull, and with a token push."),
        RegisteredGroup(
            "token",
            "Make, list and take back the tokens of a server.",
            (
                RegisteredCommand("new", "share.token", "Make a token and print it, once: only its hash is kept."),
                RegisteredCommand("list", "share.token", "List the tokens of the server: what each allows, and until when."),
                RegisteredCommand("revoke", "share.token", "Take a token back; a running server knows it at once."),
            ),
            no_args_is_help=True,
        ),
    ),
    "The program": (
        RegisteredGroup(
            "engine",
            "Keep an engine running, serve it, or change its version.",
            (
                RegisteredCommand("upgrade", "manage.engine", "Run again what other versions of the engine made; if all is equal, record this one."),
                RegisteredCommand("start", "manage.engine", "Start an engine that stays for the commands to come; each saves the start of its own."),
                RegisteredCommand("stop", "manage.engine", "End the engine that stays, once no command uses it."),
                RegisteredCommand("serve", "manage.engine_serve", "Answer requests of coordinators over gRPC with Spark and DataFusion, until it is stopped."),
                RegisteredCommand("status", "manage.engine", "Tell whether an engine stays, who uses it, and why commands do not if they do not."),
            ),
        ),
        RegisteredGroup(
            "step",
            "Carry out one step that a coordinator elsewhere asked for.",
            (
                RegisteredCommand("run", "manage.step", "Carry out the request of a job, once, and write the answer beside it."),
            ),
            no_args_is_help=True,
        ),
        RegisteredCommand("completion", "manage.completion", "Print the script that makes a shell complete commands. Options and names, too."),
        RegisteredCommand("version", "manage.version", "Print versions: odfbuild, Python, engine, specification."),
        RegisteredCommand("help", "plan.help", "Explain a rule of the gate, an error, or the exit codes."),
    ),
}
"""The commands by the titles that the help lists them under."""
# fmt: on
REGISTRY: tuple[RegisteredCommand | RegisteredGroup, ...] = tuple(
    each for commands in SECTIONS.values() for each in commands
)
