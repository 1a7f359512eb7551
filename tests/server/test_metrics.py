"""What the server tells those who watch it."""

import re

import httpx2 as httpx

LINE = re.compile(r'llm_lite_\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? -?[\d.e+]+')


def values(served):
    text = httpx.get(f"{served.url}/metrics").text
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            assert LINE.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_counts_grow_with_what_is_asked(serve):
    served = serve()
    before = values(served)
    for _ in range(2):
        served.client().completions.create(model="scripted", prompt="a b c", max_tokens=50)
    after = values(served)
    assert after["llm_lite_finished_total"] == before["llm_lite_finished_total"] + 2
    assert after["llm_lite_new_tokens_total"] == before["llm_lite_new_tokens_total"] + 14
    counted = 'llm_lite_http_requests_total{path="/v1/completions",status="200"}'
    assert counted not in before and after[counted] == 2
    assert after["llm_lite_parallel"] == 4 and after["llm_lite_waiting"] == 0
    assert after['llm_lite_model_info{model="scripted"}'] == 1


def test_what_runs_and_waits_is_told(serve):
    served = serve(parallel=1)
    served.service.hold.clear()
    from tests.server import sockets

    made = [sockets.connect(served) for _ in range(3)]
    for one in made:
        one.sendall(sockets.chat(stream=True))
    sockets.wait_until(lambda: values(served)["llm_lite_waiting"] == 2)
    assert values(served)["llm_lite_running"] == 1
    assert values(served)["llm_lite_active"] == 4  # and this question
    served.service.hold.set()
    for one in made:
        one.close()


def test_it_has_the_type_of_prometheus_text(served):
    made = httpx.get(f"{served.url}/metrics")
    assert made.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for line in made.text.splitlines():
        assert line.startswith(("# HELP llm_lite_", "# TYPE llm_lite_", "llm_lite_"))


def test_health_says_that_the_models_file_has_changed_but_not_where_it_lies(serve):
    served = serve()
    served.service.changed = "changed while it was in use; load the model again"
    made = httpx.get(f"{served.url}/health")
    assert made.status_code == 503 and "secret" not in made.text
    error = made.json()["error"]
    assert error["message"] == f"the model's file {served.service.changed}"
    assert error["code"] == "model_changed"


def test_health_is_short(served):
    assert httpx.get(f"{served.url}/health").json() == {"status": "ok"}
