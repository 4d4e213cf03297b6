"""Golden texts of the smart transfer protocol: what every version sends, and what is read of it."""

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import Multihash
from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.messages import decode, decode_answer, decode_reason, encode

A = "f1620" + "0a" * 32
B = "f1620" + "0b" * 32
HASH_A, HASH_B = Multihash.parse(A), Multihash.parse(B)
PLAN = m.TransferPlan(
    num_blocks=m.U32(3),
    num_objects=m.U32(2),
    num_records=m.U64(40),
    bytes_in_raw_blocks=m.U64(900),
    bytes_in_raw_objects=m.U64(8_000_000_000),
)
PLAN_TEXT = (
    '{"num_blocks":3,"num_objects":2,"num_records":40,"bytes_in_raw_blocks":900,'
    '"bytes_in_raw_objects":8000000000}'
)
BATCH = m.MetadataBlocksBatch(num_blocks=m.U32(1), payload=b"\x1f\x8b\x00\xff")
BATCH_TEXT = (
    '{"num_blocks":1,"media_type":"application/tar+gzip","encoding":"raw","payload":[31,139,0,255]}'
)
SLICE = m.ObjectFileReference(
    object_type=m.ObjectType.DATA_SLICE, physical_hash=HASH_A, size=m.U64(12)
)
SLICE_TEXT = f'{{"object_type":"DataSlice","physical_hash":"{A}","size":12}}'
STATE = m.ObjectFileReference(
    object_type=m.ObjectType.CHECKPOINT, physical_hash=HASH_B, size=m.U64(0)
)
STATE_TEXT = f'{{"object_type":"Checkpoint","physical_hash":"{B}","size":0}}'
URL = m.TransferUrl(
    url="https://example.org/data/x?X-Amz-Signature=1",
    headers=(m.HeaderRow("content-type", "application/octet-stream"),),
    expires_at=datetime(2026, 8, 1, 12, 30, tzinfo=UTC),
)
URL_TEXT = (
    '{"url":"https://example.org/data/x?X-Amz-Signature=1","headers":'
    '[{"name":"content-type","value":"application/octet-stream"}],'
    '"expires_at":"2026-08-01T12:30:00Z"}'
)
BARE_URL_TEXT = '{"url":"http://example.org/d/data/x","headers":[],"expires_at":null}'
BARE_URL = m.TransferUrl(url="http://example.org/d/data/x", headers=())

NEW = {
    "pull from the beginning": (
        m.PullRequest(),
        '{"begin_after":null,"stop_at":null,"force_update_if_diverged":false}',
    ),
    "pull an interval by force": (
        m.PullRequest(begin_after=HASH_A, stop_at=HASH_B, force_update_if_diverged=True),
        f'{{"begin_after":"{A}","stop_at":"{B}","force_update_if_diverged":true}}',
    ),
    "plan of a pull": (m.PullPlan(PLAN), f'{{"Ok":{{"transfer_plan":{PLAN_TEXT}}}}}'),
    "request for blocks": (m.PullBlocksRequest(), "{}"),
    "blocks": (m.PullBlocks(BATCH), f'{{"blocks":{BATCH_TEXT}}}'),
    "request for objects": (
        m.PullObjectsRequest((SLICE, STATE)),
        f'{{"object_files":[{SLICE_TEXT},{STATE_TEXT}]}}',
    ),
    "places of objects": (
        m.PullObjects((m.PullStrategy(object_file=SLICE, download_from=URL),)),
        f'{{"object_transfer_strategies":[{{"object_file":{SLICE_TEXT},'
        f'"pull_strategy":"HttpDownload","download_from":{URL_TEXT}}}]}}',
    ),
    "push to a new dataset": (
        m.PushRequest(transfer_plan=PLAN),
        f'{{"current_head":null,"transfer_plan":{PLAN_TEXT},"force_update_if_diverged":false,'
        '"visibility_for_created_dataset":"Private"}',
    ),
    "push by force": (
        m.PushRequest(
            current_head=HASH_A,
            transfer_plan=PLAN,
            force_update_if_diverged=True,
            visibility_for_created_dataset=m.Visibility.PUBLIC,
        ),
        f'{{"current_head":"{A}","transfer_plan":{PLAN_TEXT},"force_update_if_diverged":true,'
        '"visibility_for_created_dataset":"Public"}',
    ),
    "push accepted": (m.PushAccepted(), '{"Ok":{}}'),
    "pushed blocks": (m.PushBlocks(new_blocks=BATCH), f'{{"new_blocks":{BATCH_TEXT}}}'),
    "pushed blocks that are signed": (
        m.PushBlocks(new_blocks=BATCH, attestation='{"payload":"e30="}'),
        f'{{"new_blocks":{BATCH_TEXT},"attestation":"{{\\"payload\\":\\"e30=\\"}}"}}',
    ),
    "blocks accepted": (m.PushBlocksAccepted(), '{"Ok":{}}'),
    "request to send objects": (
        m.PushObjectsRequest(object_files=(SLICE,)),
        f'{{"object_files":[{SLICE_TEXT}],"is_truncated":false}}',
    ),
    "request to send some objects": (
        m.PushObjectsRequest(object_files=(STATE,), is_truncated=True),
        f'{{"object_files":[{STATE_TEXT}],"is_truncated":true}}',
    ),
    "how to send objects": (
        m.PushObjects(
            (
                m.PushStrategy(object_file=SLICE, push_strategy=m.PushMethod.SKIP),
                m.PushStrategy(
                    object_file=STATE, push_strategy=m.PushMethod.HTTP_UPLOAD, upload_to=BARE_URL
                ),
            )
        ),
        f'{{"Ok":{{"object_transfer_strategies":[{{"object_file":{SLICE_TEXT},'
        f'"push_strategy":"SkipUpload","upload_to":null}},{{"object_file":{STATE_TEXT},'
        f'"push_strategy":"HttpUpload","upload_to":{BARE_URL_TEXT}}}]}}}}',
    ),
    "request for progress": (m.PushProgressRequest(), "{}"),
    "uploads go on": (
        m.PushProgress(m.UploadsRunning(m.U64(7))),
        '{"details":{"Running":{"uploaded_objects_count":7}}}',
    ),
    "uploads are done": (m.PushProgress(m.UploadsComplete()), '{"details":"Complete"}'),
    "request to complete": (m.PushCompleteRequest(), "{}"),
    "complete": (m.PushComplete(), "{}"),
}
FAILURES = {
    "interval": (
        m.InvalidInterval(HASH_A, HASH_B),
        f'{{"Err":{{"InvalidInterval":{{"head":"{A}","tail":"{B}"}}}}}}',
    ),
    "seed": (m.SeedBlockOverwriteRestricted(), '{"Err":{"SeedBlockOverwriteRestricted":{}}}'),
    "internal of a pull": (
        m.TransferFailed(phase=m.PullPhase(m.Phase.METADATA_REQUEST), error_message="no disk"),
        '{"Err":{"Internal":{"phase":{"Pull":"MetadataRequest"},"error_message":"no disk"}}}',
    ),
    "internal of a push": (
        m.TransferFailed(
            phase=m.PushPhase(m.Phase.ENSURING_TARGET_EXISTS), error_message='a "word"'
        ),
        '{"Err":{"Internal":{"phase":{"Push":"EnsuringTargetExists"},'
        '"error_message":"a \\"word\\""}}}',
    ),
    "head of a new dataset": (
        m.InvalidHead(None, HASH_B),
        f'{{"Err":{{"InvalidHead":{{"actual_head":null,"expected_head":"{B}"}}}}}}',
    ),
    "head": (
        m.InvalidHead(HASH_A, HASH_B),
        f'{{"Err":{{"InvalidHead":{{"actual_head":"{A}","expected_head":"{B}"}}}}}}',
    ),
    "ref": (m.RefCollision("did:odf:x"), '{"Err":{"RefCollision":{"dataset_id":"did:odf:x"}}}'),
    "name": (m.NameCollision("a/b"), '{"Err":{"NameCollision":{"dataset_alias":"a/b"}}}'),
}
OLD = {
    "a pull of 2024": (
        m.PullRequest(begin_after=HASH_A),
        f'{{"begin_after":"{A}","stop_at":null}}',
    ),
    "a pull without what is null": (m.PullRequest(), "{}"),
    "a push of 2024": (
        m.PushRequest(current_head=HASH_A, transfer_plan=PLAN),
        f'{{"current_head":"{A}","transfer_plan":{PLAN_TEXT}}}',
    ),
    "blocks accepted in 2024": (m.PushBlocksAccepted(), "{}"),
    "a plan without Ok": (m.PullPlan(PLAN), f'{{"transfer_plan":{PLAN_TEXT}}}'),
    "how to send objects in 2024": (
        m.PushObjects((m.PushStrategy(object_file=SLICE, push_strategy=m.PushMethod.SKIP),)),
        f'{{"object_transfer_strategies":[{{"object_file":{SLICE_TEXT},'
        '"push_strategy":"SkipUpload"}]}',
    ),
    "fields that nobody knows": (
        m.PushObjectsRequest(object_files=(SLICE,)),
        f'{{"object_files":[{SLICE_TEXT[:-1]},"color":[1]}}],"is_truncated":false,"more":{{}}}}',
    ),
    "spaces and another order": (
        m.PullBlocks(BATCH),
        '{ "blocks" : {"payload" : [ 31 , 139,\n0, 255 ], "encoding":"raw",'
        '"media_type":"application/tar+gzip","num_blocks":1}}',
    ),
    "a payload elsewhere": (
        m.PullBlocks(BATCH),
        f'{{"x":{{"payload":[1]}},"note":"\\"payload\\":[2]","blocks":{BATCH_TEXT}}}',
    ),
}


@pytest.mark.parametrize(("message", "text"), NEW.values(), ids=NEW)
def test_a_message_has_the_text_of_the_newest_version(message: object, text: str) -> None:
    assert encode(message) == text
    assert decode_answer(type(message), text) == message
    assert decode_answer(type(message), text.encode()) == message


@pytest.mark.parametrize(("failure", "text"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_the_text_of_the_newest_version(failure: m.Failure, text: str) -> None:
    assert encode(failure) == text
    assert decode_answer(m.PushAccepted, text) == failure
    assert decode_reason(text) == failure


@pytest.mark.parametrize(("message", "text"), OLD.values(), ids=OLD)
def test_other_forms_are_read_as_the_same_message(message: object, text: str) -> None:
    assert decode_answer(type(message), text) == message


def test_a_failure_of_2024_has_no_phase() -> None:
    read = decode_answer(m.PullPlan, '{"Err":{"Internal":{"error_message":"no disk"}}}')
    assert read == m.TransferFailed(error_message="no disk")


@pytest.mark.parametrize("phase", ["null", '"Pull"', '{"Pull":"Later"}', '{"Fetch":1}'])
def test_a_phase_that_is_not_known_is_none(phase: str) -> None:
    text = f'{{"Err":{{"Internal":{{"phase":{phase},"error_message":"no disk"}}}}}}'
    assert decode_answer(m.PullPlan, text) == m.TransferFailed(error_message="no disk")


def test_a_refusal_that_is_not_known_is_read_by_its_name() -> None:
    assert decode_answer(m.PullPlan, '{"Err":{"QuotaExceeded":{"left":0}}}') == m.UnknownFailure(
        "QuotaExceeded"
    )


@pytest.mark.parametrize("text", [text for _, text in FAILURES.values()], ids=FAILURES)
def test_a_reason_that_is_cut_off_anywhere_is_read_as_far_as_it_goes(text: str) -> None:
    variant = next(iter(json.loads(text)["Err"]))
    for length in range(1, len(text)):
        read = decode_reason(text[:length])
        assert read is not None
        if length > text.index(variant) + len(variant):
            classes: dict[str, type | tuple[type, ...]] = {
                "InvalidInterval": (m.InvalidInterval, m.UnknownFailure),
                "InvalidHead": (m.InvalidHead, m.UnknownFailure),
                "SeedBlockOverwriteRestricted": m.SeedBlockOverwriteRestricted,
                "RefCollision": m.RefCollision,
                "NameCollision": m.NameCollision,
                "Internal": m.TransferFailed,
            }
            assert isinstance(read, classes[variant])


def test_a_reason_of_plain_words_is_what_was_said() -> None:
    assert decode_reason("going away") == m.TransferFailed(error_message="going away")
    assert decode_reason("") is None


def required(form: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all fields in a form."""
    found: list[tuple[str | int, ...]] = []
    items = (
        form.items()
        if isinstance(form, dict)
        else enumerate(form)
        if isinstance(form, list) and any(isinstance(each, dict) for each in form)
        else ()
    )
    for key, value in items:
        if isinstance(key, str):
            found.append((*path, key))
        found += required(value, (*path, key))
    return found


OPTIONAL = {
    "begin_after",
    "stop_at",
    "current_head",
    "upload_to",
    "expires_at",
    "attestation",
    "force_update_if_diverged",
    "visibility_for_created_dataset",
    "Ok",
}


@pytest.mark.parametrize(("message", "text"), NEW.values(), ids=NEW)
def test_every_required_field_that_is_missing_or_of_another_type_is_named(
    message: object, text: str
) -> None:
    for path in required(json.loads(text)):
        if path[-1] in OPTIONAL:
            continue
        for change in ("missing", 1.5, {"no": "thing"}):
            form = json.loads(text)
            holder = form
            for key in path[:-1]:
                holder = holder[key]
            if change == "missing":
                del holder[path[-1]]
            else:
                holder[path[-1]] = change
            with pytest.raises(m.MalformedMessageError) as caught:
                decode_answer(type(message), json.dumps(form))
            named = f"`{path[-1]}`" in caught.value.what or path[-1] == "Running"
            assert named or change != "missing"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"Ok"', "[" * 100_000, "\ud800", "\x00", '{"Ok":NaN}', '{"Err":{}}'],
    ids=repr,
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(m.MalformedMessageError):
        decode_answer(m.PullPlan, text)


@pytest.mark.parametrize(
    "payload",
    [
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[256]",
        "[-1]",
        "[1.0]",
        "[true]",
        "[[1]]",
        "[01]",
        '"AA=="',
        "[1 2]",
    ],
)
def test_a_payload_that_is_no_array_of_bytes_is_refused(payload: str) -> None:
    text = f'{{"blocks":{BATCH_TEXT.replace("[31,139,0,255]", payload)}}}'
    with pytest.raises(m.MalformedMessageError):
        decode(m.PullBlocks, text)


@given(st.binary(max_size=2_000), st.integers(0, 3))
def test_a_payload_comes_back_as_it_was(data: bytes, times: int) -> None:
    payload = data * 50**times if len(data) < 20 else data
    sent = m.PullBlocks(m.MetadataBlocksBatch(num_blocks=m.U32(1), payload=payload))
    text = encode(sent)
    assert json.loads(text)["blocks"]["payload"] == list(payload)
    assert decode(m.PullBlocks, text) == sent


@given(st.sampled_from(sorted(NEW)), st.data())
def test_a_text_with_any_change_is_read_or_refused(name: str, data: st.DataObject) -> None:
    message, text = NEW[name]
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :]
    with suppress(m.MalformedMessageError):
        decode_answer(type(message), changed)
