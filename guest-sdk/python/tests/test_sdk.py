"""What the SDK promises beside the conformance suite."""

import unittest
from pathlib import Path
from typing import Any

import guesthouse_sdk
from guesthouse_sdk import (
    Apply,
    Decision,
    Http,
    Kind,
    Need,
    Objects,
    Observation,
    Plugin,
    Raw,
    Response,
    Retry,
    Stall,
    fingerprint,
    log,
)
from guesthouse_sdk.testing import check, decide, describe, observe

PROJECT = Path(__file__).resolve().parents[1]

Seen = Observation[dict[str, Any], dict[str, Any]]


def answer(handler: Any, seen: Seen | None = None) -> dict[str, Any]:
    """What a plugin with that function answers."""
    plugin = Plugin("p", "1.0.0")
    plugin.reconcile(handler)
    return decide(plugin, seen or observe({"metadata": {"name": "a"}}))


class Answers(unittest.TestCase):
    def test_an_error_that_nobody_caught_is_a_retry_with_its_text_and_the_way_to_it_in_the_log(self) -> None:
        lines: list[tuple[str, str]] = []
        self.addCleanup(setattr, log, "sink", log.sink)
        log.sink = lambda level, message: lines.append((level, message))
        cause = {"reason": "Error", "message": "KeyError: 'who'"}
        self.assertEqual(answer(lambda seen: seen.spec["who"]), {"failure": {"kind": "retry", "cause": cause}})
        self.assertEqual(lines[0], ("error", "KeyError: 'who'"))
        self.assertIn(f"{Path(__file__).name}:", lines[-1][1])

    def test_a_failure_may_be_raised_or_returned(self) -> None:
        def raises(seen: Seen) -> Decision:
            raise Stall("Wrong", "m").status({"phase": "Bad"})

        returned = answer(lambda seen: Stall("Wrong", "m").status({"phase": "Bad"}))
        self.assertEqual(answer(raises), returned)
        self.assertEqual(returned["failure"]["status"], {"replace": {"phase": "Bad"}})

    def test_what_json_cannot_say_stalls_and_says_what_it_is(self) -> None:
        circle: list[Any] = []
        circle.append(circle)
        for value, said in [
            ({"a": {1}}, "Object of type set is not JSON serializable"),
            ({"a": float("nan")}, "Out of range float values are not JSON compliant"),
            ({"a": "\ud800"}, "surrogates not allowed"),
            ({"a": b"x"}, "Object of type bytes"),
            (circle, "Circular reference detected"),
        ]:
            with self.subTest(said):
                failure = answer(lambda seen, value=value: Decision().status(value))["failure"]
                self.assertEqual((failure["kind"], failure["cause"]["reason"]), ("terminal", "BadDecision"))
                self.assertIn(said, failure["cause"]["message"])

    def test_something_else_than_a_decision_stalls(self) -> None:
        failure = answer(lambda seen: {"status": {}})["failure"]
        self.assertEqual(failure["cause"]["message"], "reconcile answered with a dict, not with a Decision")

    def test_what_becomes_of_a_value_after_it_was_given_changes_nothing(self) -> None:
        def handler(seen: Seen) -> Decision:
            status = {"list": [1]}
            decision = Decision().status(status)
            status["list"].append(2)
            return decision

        self.assertEqual(answer(handler)["decision"]["status"], {"replace": {"list": [1]}})

    def test_raw_text_is_taken_byte_for_byte(self) -> None:
        text = '{"n": 1.10, "big":9007199254740993}'
        self.assertEqual(Decision().status(Raw(text)).raw["status"]["replace"].text, text)
        self.assertEqual(observe(Raw(text)).raw["object"].text, text)

    def test_only_what_is_said_is_written(self) -> None:
        self.assertEqual(Decision().raw, {})
        self.assertEqual(Need.owned("mine", Kind("batch/v1", "Job")).record().keys(), {"name", "source"})
        self.assertEqual(Http("a", "PUT", "https://example.test").record().keys(), {"id", "action"})
        self.assertEqual(Decision().wake_after(0).raw, {"wake": {"after": 0}})
        self.assertEqual(Decision().children([]).raw, {"complete": True})

    def test_a_json_body_brings_its_content_type(self) -> None:
        request = Http("a", "PUT", "https://example.test", json={"a": None}, headers={"x-a": "1"}).record()["action"]["http"]
        self.assertEqual(request["request"]["body"], {"text": '{"a":null}'})
        self.assertEqual(request["request"]["headers"], [["content-type", "application/json"], ["x-a", "1"]])

    def test_a_kind_is_served_with_its_definition_or_without(self) -> None:
        kind = Kind("example.com/v1", "Greeting", crd={"kind": "CustomResourceDefinition"})
        kinds = describe(Plugin("p", "1.0.0", serves=[kind, Kind("v1", "Secret")]))["kinds"]
        self.assertEqual([one.get("crd") for one in kinds], [{"kind": "CustomResourceDefinition"}, None])

    def test_deletion_passes_through_a_plugin_that_finalizes(self) -> None:
        plugin = Plugin("p", "1.0.0")
        self.assertNotIn("finalizes", describe(plugin))
        plugin.finalize(lambda seen: Decision().finalized())
        self.assertTrue(describe(plugin)["finalizes"])


class Observations(unittest.TestCase):
    def test_members_that_nobody_knows_yet_are_ignored_at_every_level(self) -> None:
        response = {"code": 200, "body": {"text": "{}"}, "at": "2026-01-01T00:00:00Z", "new": 1}
        kind = {"apiVersion": "v1", "kind": "Pod", "new": 1}
        seen = observe(
            {"metadata": {"name": "a"}},
            new=1,
            children=[
                {
                    "effect": "a",
                    "object": {"kind": kind, "name": "a", "new": 1},
                    "state": "absent",
                    "error": {"reason": "R", "new": 1},
                    "new": 1,
                }
            ],
            receipts=[{"effect": "x", "state": {"answered": response}, "new": 1}],
            related=[
                {"name": "n", "answer": {"objects": {"items": [{"a": 1}], "truncated": False, "new": 1}}, "new": 1},
                {"name": "u", "answer": {"unavailable": {"reason": "R", "new": 1}}},
            ],
        )
        child = seen.child("a")
        assert child is not None and child.error is not None
        self.assertEqual((child.object.name, child.error.reason, child.error.message), ("a", "R", ""))
        self.assertEqual(seen.related("n"), Objects([{"a": 1}], False))
        match seen.receipt("x"):
            case Response() as found:
                self.assertEqual((found.ok, found.json()), (True, {}))
            case other:
                self.fail(f"found {other}")

    def test_an_object_without_spec_and_status_has_empty_ones(self) -> None:
        for object in ({"metadata": {"name": "a"}}, {"metadata": {"name": "a"}, "spec": None, "status": None}):
            seen = observe(object)
            self.assertEqual((seen.spec, seen.status, seen.labels, seen.namespace, seen.generation), ({}, {}, {}, None, 0))

    def test_objects_of_a_need_without_an_answer_are_a_retry_with_its_reason(self) -> None:
        denied = observe({}, related=[{"name": "n", "answer": {"unavailable": {"reason": "Denied", "message": "m"}}}])
        with self.assertRaises(Retry) as refused:
            denied.objects("n")
        self.assertEqual(refused.exception.raw["cause"], {"reason": "Denied", "message": "m"})
        self.assertEqual(denied.objects("not asked for yet"), [])

    def test_a_receipt_is_found_by_its_key_or_by_the_last_one(self) -> None:
        seen = observe({}, receipts=[{"effect": "x", "key": "k", "state": "unknown"}])
        self.assertIsNone(seen.receipt("x"))
        self.assertEqual(seen.receipt("x", "k"), seen.last_receipt("x"))
        self.assertIsNotNone(seen.last_receipt("x"))


class Cases(unittest.TestCase):
    plugin = Plugin("p", "1.0.0")

    @staticmethod
    @plugin.reconcile
    def reconcile(seen: Seen) -> Decision:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        return Decision().status({"n": seen.spec["n"]}).apply(Apply("a", child))

    def case(self, **expect: Any) -> None:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        effect = {"id": "a", "after": [], "action": {"apply": {"object": child, "ownership": "owned"}}}
        decision = {"status": {"replace": {"n": 1}}, "effects": [effect], "complete": False, "wake": None} | expect
        check(self.plugin, {"observation": {"object": {"spec": {"n": 1}}}, "expect": {"decision": decision}})

    def test_what_may_be_left_out_may_be_written_too(self) -> None:
        self.case()

    def test_a_difference_is_shown(self) -> None:
        with self.assertRaises(AssertionError) as shown:
            self.case(status={"replace": {"n": 2}})
        self.assertIn('-        "n": 2\n+        "n": 1', str(shown.exception))

    def test_one_and_one_point_zero_differ_and_null_is_not_absent(self) -> None:
        for status in ({"n": 1.0}, {"n": 1, "more": None}):
            with self.assertRaises(AssertionError):
                self.case(status={"replace": status})
        with self.assertRaises(AssertionError):
            self.case(wake={"after": 0})

    def test_a_decision_that_differs_from_call_to_call_is_found(self) -> None:
        plugin, calls = Plugin("p", "1.0.0"), iter(range(9))
        plugin.reconcile(lambda seen: Decision().status({"n": next(calls)}))
        with self.assertRaisesRegex(AssertionError, "two calls with one observation"):
            check(plugin, {"observation": {"object": {}}, "expect": {"same": True}})


class Package(unittest.TestCase):
    def test_a_fingerprint_never_changes_since_it_stands_in_keys(self) -> None:
        self.assertEqual([fingerprint([]), fingerprint(["a"])], ["cbf29ce484222325", "089bc907b544c769"])
        self.assertEqual(len({fingerprint(texts) for texts in (["a", "b"], ["b", "a"], ["ab"], ["ab", ""], ["", "ab"])}), 5)

    def test_everything_that_is_offered_is_there(self) -> None:
        for name in guesthouse_sdk.__all__:
            self.assertTrue(hasattr(guesthouse_sdk, name), name)

    def test_the_contract_is_the_projects(self) -> None:
        own = PROJECT / "guesthouse_sdk/wit/reconciler.wit"
        self.assertEqual(own.read_bytes(), (PROJECT.parents[1] / "wit/reconciler.wit").read_bytes())

    def test_the_readmes_plugin_does_what_it_says(self) -> None:
        code = (PROJECT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        self.assertLessEqual(len(code.splitlines()), 20)
        module: dict[str, Any] = {}
        exec(code, module)
        decision = decide(module["plugin"], observe({"metadata": {"name": "g"}, "spec": {"who": "world"}}))["decision"]
        self.assertEqual(decision["status"], {"replace": {"text": "hello, world"}})


if __name__ == "__main__":
    unittest.main()
