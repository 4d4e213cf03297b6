"""Repositories of a project: what is read of the setting, and what profiles may say otherwise."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.odf.identity import DatasetId
from odfbuild.project.config.project_file import Config, parse_config
from odfbuild.project.config.repositories import SCHEMES, url_problem
from odfbuild.project.config.targets import ProfilesFile
from tests.project.config.settings import FULL

HUB = "odfbuild: 1\nrepositories:\n  hub: {url: 'https://hub.example.org/odf', trust: remembered}\n"


def read(text: str, *profiles: str) -> Config:
    files = [ProfilesFile(f"{at}.yaml", each) for at, each in enumerate(profiles)]
    return parse_config(text, default_name="x", profiles=files)


def test_a_repository_has_a_url_and_by_default_its_heads_are_remembered() -> None:
    hub = read("odfbuild: 1\nrepositories:\n  hub: {url: 'https://hub.example.org/odf'}\n")
    found = hub.repositories["hub"]
    assert (found.name, found.url, found.trust) == (
        "hub",
        "https://hub.example.org/odf/",
        "remembered",
    )
    assert found.witnesses == ()


def test_every_key_of_a_repository_is_read() -> None:
    found = read(FULL).repositories
    assert found["hub"].trust == "signed"
    assert [str(each) for each in found["hub"].witnesses] == [
        "did:odf:fed01d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    ]
    assert found["lake"].region == "eu-central-1"
    assert found["usb"].url == "file:///media/usb/"
    assert found["mirror"].gateway == "https://ipfs.example.org"


def test_a_profile_adds_repositories_and_says_where_one_is() -> None:
    found = read(
        HUB,
        "repositories: {own: {url: 'file:///srv/odf'}}\n",
        "repositories: {hub: {url: 's3://mirror/odf'}}\n",
    ).repositories
    assert found["own"].url == "file:///srv/odf/"
    assert (found["hub"].url, found["hub"].trust) == ("s3://mirror/odf/", "remembered")


def test_a_profile_asks_for_more_trust_and_never_for_less() -> None:
    more = read(HUB, "repositories: {hub: {trust: signed}}\n")
    assert more.repositories["hub"].trust == "signed"
    with pytest.raises(ProjectErrors, match="cannot be lowered to any by a profile"):
        read(HUB, "repositories: {hub: {trust: any}}\n")


def test_witnesses_of_a_profile_come_after_those_of_the_project() -> None:
    one, two = (DatasetId(bytes([n]) * 32).did_key() for n in (1, 2))
    hub = f"{{url: 'https://h.example', witnesses: ['{one}']}}"
    text = f"odfbuild: 1\nrepositories: {{hub: {hub}}}\n"
    found = read(text, f"repositories: {{hub: {{witnesses: ['{two}', '{one}']}}}}\n")
    assert [each.did_key() for each in found.repositories["hub"].witnesses] == [one, two]


def test_names_of_repositories_are_one_without_regard_to_case() -> None:
    with pytest.raises(ProjectErrors, match="'Hub' is written 'hub' elsewhere"):
        read(HUB, "repositories: {Hub: {url: 'https://other.example'}}\n")


@pytest.mark.holds("server-token")
def test_a_credential_in_a_url_is_not_shown() -> None:
    schemes = ("https://", "https:/", "https:", "s3+https://", "ftp://", "")
    users = ("lovelace@", "ada:lovelace@", "ada:love/lovelace@", "ada:x lovelace@", ":lovelace@")
    hosts = ("hub.example.org", "hub.example.org/odf", "hub.example.org:port/", "[::1/")
    urls = [scheme + user + host for scheme in schemes for user in users for host in hosts]
    urls += [
        f"https://hub.example.org{end}=lovelace" for end in ("?key", "/?key", "#key", "/x#key")
    ]
    keys = ("url: '{}'", "url: 'ipfs://cid', gateway: '{}'")
    for text in (key.format(url) for url in urls for key in keys):
        with pytest.raises(ProjectErrors) as caught:
            read(f"odfbuild: 1\nrepositories: {{hub: {{{text}}}}}\n")
        (found,) = caught.value.found
        assert found.code == "secret", text
        assert "lovelace" not in f"{found.what}{found.why}{found.fix}{found.span}"
    for url in ("https://hub.example.org/@ana/odf", "file:///srv/a@b:c", "s3://bucket/a@b"):
        assert read(f"odfbuild: 1\nrepositories: {{hub: {{url: '{url}'}}}}\n").repositories


hosts = st.sampled_from(["h", "hub.example.org", "h-1.example.org", "10.0.0.7", "[::1]", "h_x"])
ports = st.sampled_from(["", ":1", ":8080", ":65535"])
paths = st.sampled_from(["", "/", "/odf", "/odf/", "/a%20b/c", "/a;b/~c", "/a(b)/c,d"])
with_port = st.sampled_from(
    [each for each in SCHEMES if each not in ("file", "s3", "gs", "ipfs", "ipns")]
)


@given(with_port, hosts, ports, paths)
def test_a_url_of_a_scheme_a_server_and_a_folder_is_one_of_a_repository(
    scheme: str, host: str, port: str, path: str
) -> None:
    assume(scheme[:2] not in ("az", "gs") or host not in ("[::1]", "h_x"))
    names = {"s3": "/bucket", "gs": "/bucket", "az": "/account/bucket"}.get(scheme[:2], "")
    url = f"{scheme}://{host}{port}{names}{path}"
    assert url_problem(url) is None, url


@given(
    with_port,
    st.one_of(
        *(
            st.tuples(st.just(""), st.just(host), st.just("/odf"))
            for host in (
                "",
                ":80",
                "h:",
                "h:0",
                "h:65536",
                "h:x",
                ".",
                "-h",
                "a..b",
                "[::1",
                "h%20",
            )
        ),
        st.tuples(st.just(""), hosts, st.sampled_from(["/..", "/a/../b", "/./b", "/%2e%2E/b"])),
        st.tuples(st.just(""), hosts, st.sampled_from(["/odf?", "/odf#", "/?", "/#x"])),
        st.tuples(
            st.just(""),
            hosts,
            st.sampled_from([f"/a{each}b" for each in ' \t\n\x00\x7f"<>\\^`{|}\u202e%']),
        ),
        st.tuples(st.sampled_from([" ", "x", "+"]), hosts, st.just("/odf")),
    ),
)
def test_what_is_no_url_of_a_folder_at_a_server_is_refused_with_what_and_why(
    scheme: str, parts: tuple[str, str, str]
) -> None:
    before, host, path = parts
    found = url_problem(f"{before}{scheme}://{host}{path}")
    assert found is not None
    what, why, fix, is_secret = found
    assert what.isprintable()
    assert all((what, why, fix))
    assert not is_secret


def test_what_names_no_server_has_no_port_and_a_folder_begins_at_the_root() -> None:
    for url in (
        "s3://b:80/x",
        "ipfs://cid:80",
        "ipns://n:1",
        "file:odf",
        "file://host/odf",
        "HTTP://h",
    ):
        assert url_problem(url) is not None, url
    for url in ("s3://bucket/x", "ipfs://cid", "ipns://name/x", "file:/odf", "file:///srv/wörter"):
        assert url_problem(url) is None, url
