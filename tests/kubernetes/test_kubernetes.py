"""deploy/kubernetes.yaml fits the operator's schema, and its pods agree with each other."""

import gzip
import json
import re
from pathlib import Path

import dask
import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def manifests():
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


@pytest.fixture
def pods(manifests):
    """The specification of each kind of pod."""
    spec = manifests[1]["spec"]
    cluster = spec["cluster"]["spec"]
    return {
        "job": spec["job"]["spec"],
        "worker": cluster["worker"]["spec"],
        "scheduler": cluster["scheduler"]["spec"],
    }


def closed(schema):
    """A schema that knows all fields: Kubernetes drops unknown ones without a word."""
    if isinstance(schema, list):
        return list(map(closed, schema))
    if not isinstance(schema, dict):
        return schema
    own = {key: closed(each) for key, each in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not is_open and "type" in schema:
        own["additionalProperties"] = False
    return own


@pytest.fixture(scope="module")
def jsonschema():
    return pytest.importorskip("jsonschema", reason="needs jsonschema: pip install '.[test]'")


@pytest.fixture(scope="module")
def schema(jsonschema):
    with gzip.open(Path(__file__).with_name("daskjob.json.gz")) as file:
        own = json.load(file)
    own["properties"] |= {name: {} for name in ("apiVersion", "kind", "metadata")}
    # A validator: jsonschema.validate checks the schema each time, which takes seconds.
    return jsonschema.Draft202012Validator(closed(own))


def test_the_manifest_fits_the_schema_of_the_operator(manifests, schema):
    schema.validate(manifests[1])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.cluster.spec.worker.replicas", "two"),
        ("spec.cluster.spec.worker.replica", 2),
        ("spec.job.spec.containers", {"name": "job"}),
        ("spec.cluster.spec.scheduler.spec.volumes", [{"secret": {"secretName": "mgrec-tls"}}]),
    ],
)
def test_a_manifest_that_does_not_fit_is_seen(manifests, jsonschema, schema, path, value):
    *ahead, last = path.split(".")
    place = manifests[1]
    for name in ahead:
        place = place[name]
    place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(manifests[1])


def test_the_pods_agree(manifests, pods):
    claim, job = manifests
    name = job["metadata"]["name"]
    address = f"tls://{name}-scheduler:8786"
    cluster = job["spec"]["cluster"]["spec"]
    service = cluster["scheduler"]["service"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    containers = {kind: pod["containers"][0] for kind, pod in pods.items()}
    ports = {port["name"] for port in containers["scheduler"]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == ports
    probes = (containers["scheduler"][kind] for kind in ("readinessProbe", "livenessProbe"))
    assert {probe["httpGet"]["port"] for probe in probes} <= ports
    assert "$(DASK_WORKER_NAME)" in containers["worker"]["args"]
    assert containers["worker"]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert all(address in containers[kind]["args"] for kind in ("worker", "job"))
    waits = containers["job"]["args"]
    assert int(waits[waits.index("--workers") + 1]) == cluster["worker"]["replicas"]
    assert pods["job"]["restartPolicy"] == "Never"
    for kind in ("worker", "job"):
        mounts = {mount["name"]: mount["mountPath"] for mount in containers[kind]["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pods[kind]["volumes"]}
        claimed = volumes["data"]["persistentVolumeClaim"]["claimName"]
        assert (mounts["data"], claimed) == ("/data", claim["metadata"]["name"])
    assert waits[waits.index("--folder") + 1] == "/data"


@pytest.mark.parametrize("kind", ["job", "worker", "scheduler"])
def test_what_dask_makes_of_the_environment_is_tls(pods, kind):
    (container,) = pods[kind]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    environment = {each["name"]: each["value"] for each in container["env"]}
    found = dask.config.collect_env(environment)
    own = "client" if kind == "job" else kind

    def told(name):
        return dask.config.get(f"distributed.comm.{name}", config=found)

    assert told("require-encryption") is True
    files = {told("tls.ca-file"), told(f"tls.{own}.cert"), told(f"tls.{own}.key")}
    assert files == {f"{mounts['tls']}/{name}.pem" for name in ("ca", "cert", "key")}


def test_the_image_is_that_of_the_dockerfile(pods):
    text = (DEPLOY / "Dockerfile").read_text()
    (built,) = re.findall(r"docker build .* -t (\S+) ", text)
    assert {each["image"] for pod in pods.values() for each in pod["containers"]} == {built}
