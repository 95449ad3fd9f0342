"""``deploy/kubernetes``: manifests, settings, image and instructions agree with each other and with the code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from genolewm_assets.defs.engines.k8s_launcher import KubernetesRunLauncher
from genolewm_assets.defs.engines.op_tags import WITHOUT_GPU
from genolewm_assets.launch import TELEMETRY_OFF
from genolewm_assets_tests.deploy.installation import DEPLOY, UNITS, Installation, settings_of
from genolewm_assets_tests.servers.kubernetes.manifests import (
    FOLDER,
    NAMESPACE,
    manifests,
    schema_fault,
    security_faults,
)
from genolewm_assets_tests.servers.programs import program

README = (FOLDER / "README.md").read_text()
COMMANDS = "\n".join(re.findall(r"```bash\n(.*?)```", README, re.DOTALL))
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
MANIFESTS = {(each["kind"], each["metadata"]["name"]): each for each in manifests()}
SERVICES = ("code", "daemon", "webserver")
EXAMPLE = settings_of((DEPLOY / "genolewm.env.example").read_text())
SETTINGS: dict[str, str] = MANIFESTS["ConfigMap", "genolewm-settings"]["data"]
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
INSTANCE = yaml.safe_load((FOLDER / "dagster.yaml").read_text())
LAUNCHER = INSTANCE["run_launcher"]["config"]


def pod_of(service: str) -> dict[str, Any]:
    found: dict[str, Any] = MANIFESTS["Deployment", f"genolewm-{service}"]["spec"]["template"]["spec"]
    return found


def container_of(service: str) -> dict[str, Any]:
    return next(each for each in pod_of(service)["containers"] if each["name"] == service)


def snake(document: Any) -> Any:
    """Return a document with the keys of the Python client in place of those of the API."""
    if isinstance(document, dict):
        return {re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", k): snake(v) for k, v in document.items()}
    return [snake(each) for each in document] if isinstance(document, list) else document


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_kubernetes_takes_every_manifest(version: str) -> None:
    for name, manifest in MANIFESTS.items():
        assert schema_fault(manifest, version) is None, name


def test_the_kustomization_names_every_file() -> None:
    names = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    (instance,) = KUSTOMIZATION["configMapGenerator"]
    assert set(KUSTOMIZATION["resources"]) | set(instance["files"]) == names
    assert instance["name"] == LAUNCHER["instance_config_map"]
    assert KUSTOMIZATION["generatorOptions"]["disableNameSuffixHash"]
    assert {KUSTOMIZATION["namespace"], LAUNCHER["job_namespace"]} == {NAMESPACE}
    assert ("Namespace", NAMESPACE) in MANIFESTS


def test_the_instance_is_that_of_one_machine_but_for_the_launcher() -> None:
    one, here = (yaml.safe_load(path.read_text()) for path in (DEPLOY / "dagster.yaml", FOLDER / "dagster.yaml"))
    launcher, monitoring = here.pop("run_launcher"), here.pop("run_monitoring")
    one.pop("run_launcher")
    # A run that may be resumed does not end its steps when it is cancelled.
    changed = {"max_resume_run_attempts": 0, "start_timeout_seconds": 1800}
    assert monitoring == {**one.pop("run_monitoring"), **changed}
    assert here == one
    named = (launcher["module"], launcher["class"])
    assert named == (KubernetesRunLauncher.__module__, KubernetesRunLauncher.__name__)


def test_dagster_takes_settings_without_a_token(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster import DagsterInstance
    from dagster._core.instance import InstanceRef
    from kubernetes.config import ConfigException

    folder = installation.folder / "kubernetes"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(installation.moved((FOLDER / "dagster.yaml").read_text()))
    for name, value in {**installation.environment(), "GENOLEWM_IMAGE": "image"}.items():
        monkeypatch.setenv(name, value)
    # Code server and steps open the instance; who launches or ends a run needs a token.
    with DagsterInstance.from_ref(InstanceRef.from_dir(str(folder))) as instance:
        assert instance.run_monitoring_max_resume_run_attempts == 0
        with pytest.raises(ConfigException, match="not set"):
            _ = instance.run_launcher


def test_settings_are_those_of_one_machine_but_for_places() -> None:
    assert TELEMETRY_OFF.items() <= SETTINGS.items()
    assert {name for name in SETTINGS if name.startswith("GENOLEWM_")} - {"GENOLEWM_IMAGE"} <= EXAMPLE.keys()
    assert (SETTINGS["GENOLEWM_EXECUTOR"], SETTINGS["GENOLEWM_DEVICE"]) == ("k8s", "cuda")
    for name in ("GENOLEWM_ROOT", "GENOLEWM_RUN_LOGS", "GENOLEWM_RUN_FILES", "PYTHONSAFEPATH", "PYTHONUNBUFFERED"):
        assert SETTINGS[name] == EXAMPLE[name]
    mounts = {mount["mountPath"] for mount in LAUNCHER["volume_mounts"]}
    assert mounts == {SETTINGS["GENOLEWM_ROOT"], SETTINGS["DAGSTER_HOME"], "/tmp", SETTINGS["HOME"]}
    assert LAUNCHER["dagster_home"] == SETTINGS["DAGSTER_HOME"]
    # Nothing is written elsewhere.
    for name in ("GENOLEWM_CACHE", "XDG_CACHE_HOME", "MPLCONFIGDIR", "HOME"):
        assert Path(SETTINGS[name]).is_relative_to("/var/cache/genolewm")


def test_every_pod_has_the_one_image_and_what_it_refers_to_is_there() -> None:
    images = {container_of(service)["image"] for service in SERVICES}
    assert images == {SETTINGS["GENOLEWM_IMAGE"]}
    assert LAUNCHER["job_image"] == {"env": "GENOLEWM_IMAGE"}
    assert SETTINGS["GENOLEWM_IMAGE"] in DOCKERFILE
    for service in SERVICES:
        container, pod = container_of(service), pod_of(service)
        sources = [source["name"] for each in container["envFrom"] for source in each.values()]
        assert sources == [*LAUNCHER["env_config_maps"], *LAUNCHER["env_secrets"]]
        # The web server reads what runs printed, and writes nothing under the root.
        read_only = {"readOnly": True} if service == "webserver" else {}
        mounts = [{**each, **(read_only if each["name"] == "root" else {})} for each in LAUNCHER["volume_mounts"]]
        assert container["volumeMounts"] == mounts
        assert [each for each in pod["volumes"] if each["name"] != "nginx"] == LAUNCHER["volumes"]
    assert ("PersistentVolumeClaim", "genolewm-root") in MANIFESTS
    assert MANIFESTS["PersistentVolumeClaim", "genolewm-root"]["spec"]["accessModes"] == ["ReadWriteMany"]
    for name in ("secret generic genolewm-database", "secret generic genolewm-nginx", "configmap genolewm-nginx"):
        assert f"create {name}" in COMMANDS


def test_services_run_what_the_units_run() -> None:
    for service in SERVICES:
        unit = settings_of((UNITS / f"genolewm-{service}.service").read_text())["ExecStart"]
        command = unit.replace("/opt/genolewm/venv/bin/", "")
        command = command.replace("--socket /run/genolewm/code.sock", "--host 0.0.0.0 --port 4266")
        assert container_of(service)["args"] == command.split()
        assert MANIFESTS["Deployment", f"genolewm-{service}"]["spec"]["replicas"] == 1
    (code,) = yaml.safe_load((FOLDER / "workspace.yaml").read_text())["load_from"]
    (port,) = MANIFESTS["Service", code["grpc_server"]["host"]]["spec"]["ports"]
    assert port["port"] == code["grpc_server"]["port"]
    assert container_of("code")["ports"] == [{"name": port["targetPort"], "containerPort": 4266}]


@pytest.mark.parametrize("service", SERVICES)
def test_services_are_confined_as_runs_are_and_keep_off_gpu_nodes(service: str) -> None:
    pod = pod_of(service)
    assert list(security_faults(pod)) == []
    assert all(each["securityContext"] == LAUNCHER["security_context"] for each in pod["containers"])
    in_runs = LAUNCHER["run_k8s_config"]["pod_spec_config"]
    assert pod["securityContext"] == in_runs["securityContext"]
    assert pod["affinity"] == in_runs["affinity"]
    assert snake(in_runs["affinity"]) == WITHOUT_GPU
    uid = in_runs["securityContext"]["runAsUser"]
    assert f"USER {uid}:{uid}" in DOCKERFILE
    assert MANIFESTS["Namespace", NAMESPACE]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_token_is_mounted_where_it_is_needed_and_nowhere_else() -> None:
    accounts = {name for kind, name in MANIFESTS if kind == "ServiceAccount"}
    assert accounts == {"genolewm-daemon", "genolewm-webserver", LAUNCHER["service_account_name"]}
    for account in accounts:
        assert MANIFESTS["ServiceAccount", account]["automountServiceAccountToken"] is False
        binding = MANIFESTS["RoleBinding", account]
        assert (binding["roleRef"]["name"], [each["name"] for each in binding["subjects"]]) == (account, [account])
    tokens = {service: pod_of(service)["automountServiceAccountToken"] for service in SERVICES}
    assert tokens == {"code": False, "daemon": True, "webserver": True}


def test_roles_hold_no_more_than_jobs_and_their_pods() -> None:
    rules = [rule for (kind, _), each in MANIFESTS.items() if kind == "Role" for rule in each["rules"]]
    assert not [kind for kind, _ in MANIFESTS if kind.startswith("Cluster")]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"jobs", "jobs/status", "pods", "pods/log", "events"}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"create", "delete", "get", "list"}


def test_nothing_is_let_in_but_people_to_nginx_and_two_services_to_the_code_server() -> None:
    policies = {name: each["spec"] for (kind, name), each in MANIFESTS.items() if kind == "NetworkPolicy"}
    default = policies["genolewm-default"]
    assert (default["podSelector"], default["policyTypes"], default.get("ingress")) == ({}, ["Ingress", "Egress"], None)
    let_in = {name: spec["ingress"] for name, spec in policies.items() if "ingress" in spec}
    assert {name: [port["port"] for rule in rules for port in rule["ports"]] for name, rules in let_in.items()} == {
        "genolewm-code": [4266],
        "genolewm-webserver": [8443],
    }
    assert "--host 127.0.0.1" in " ".join(container_of("webserver")["args"])
    assert {each["spec"]["type"] for (kind, _), each in MANIFESTS.items() if kind == "Service"} == {"ClusterIP"}
    known = [each["spec"]["template"]["metadata"]["labels"] for (k, _), each in MANIFESTS.items() if k == "Deployment"]
    known.append({"app.kubernetes.io/name": "dagster", "app.kubernetes.io/component": "run_worker"})
    for key, value in labels_of(list(policies.values())):
        assert any(labels.get(key) == value for labels in known), (key, value)


def labels_of(document: object) -> Iterator[tuple[str, str]]:
    """Yield every label by which policies choose pods."""
    if isinstance(document, dict):
        if isinstance(document.get("podSelector"), dict):
            selector = document["podSelector"]
            yield from selector.get("matchLabels", {}).items()
            for each in selector.get("matchExpressions", ()):
                yield from ((each["key"], value) for value in each["values"])
        for value in document.values():
            yield from labels_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from labels_of(value)


def test_nginx_takes_its_configuration_as_the_pod_has_it(tmp_path: Path) -> None:
    given = tmp_path / "nginx"
    given.mkdir()
    for file in (*(DEPLOY / "nginx").glob("*.conf"), FOLDER / "nginx.conf"):
        (given / file.name).write_text(file.read_text())
    (ports,) = re.findall(r"^sed -i (\".*\") nginx/listen_\*\.conf$", COMMANDS, re.MULTILINE)
    listening = [str(path) for path in given.glob("listen_*.conf")]
    assert "$name" in ports
    subprocess.run(["bash", "-c", f'name=a.example.org; sed -i {ports} "$@"', "-", *listening], check=True)
    text = "".join(Path(path).read_text() for path in listening)
    assert re.findall(r"^listen (?:\[::\]:)?(\d+)", text, re.MULTILINE).count("8443") == 2
    assert set(re.findall(r"^listen (?:\[::\]:)?(\d+)", text, re.MULTILINE)) == {"8080", "8443"}
    certificate = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-subj", "/CN=a.example.org"]
    files = {"key.pem": given / "key.pem", "certificate.pem": given / "certificate.pem", "users": given / "users"}
    made = [*certificate, "-keyout", str(files["key.pem"]), "-out", str(files["certificate.pem"])]
    subprocess.run(made, check=True, capture_output=True)
    files["users"].write_text("")
    (volume,) = [each["projected"] for each in pod_of("webserver")["volumes"] if each["name"] == "nginx"]
    etc = tmp_path / "etc"
    for source in volume["sources"]:
        for item in next(iter(source.values()))["items"]:
            (etc / item["path"]).parent.mkdir(parents=True, exist_ok=True)
            text = (given / item["key"]).read_text().replace("/var/cache/nginx/", f"{tmp_path}/")
            (etc / item["path"]).write_text(text)
    test = [program("nginx"), "-t", "-c", str(etc / "nginx.conf")]
    done = subprocess.run(test, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
