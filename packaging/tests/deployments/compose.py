"""The compose file: read by the types of its specification, and its services run without containers."""

import contextlib
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import checks
import machine
from compose_spec import PyOptions

VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def check(root, place):
    folder = place / "packaging"
    for name in ("compose", "gateway"):
        shutil.copytree(root / "packaging" / name, folder / name)
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    text = (folder / "compose/gateway.yaml").read_text()
    read = lambda text: interpolated(text, {"AGENTD_VERSION": version})
    services = {}

    checks.check("compose", "its secrets are made once", lambda: secrets(folder))
    checks.check("compose", "it follows the specification", lambda: services.update(specified(read(text))))
    checks.check("compose", "its files exist", lambda: files(read(text), folder))
    checks.check("compose", "mistakes are refused", lambda: mistakes(read(text)))
    checks.check("compose", "a version of the image is needed", lambda: needs_version(text))
    pages = []
    checks.check("compose", "its services run together", lambda: pages.append(runs(services, folder, place)))
    return pages


def interpolated(text, variables):
    """Variables as compose puts them in."""

    def value(found):
        name, kind, rest = found.groups()
        if name in variables:
            return variables[name]
        if kind == "?":
            raise KeyError(rest)
        return rest or ""

    return VARIABLE.sub(value, text)


def parse(text):
    options = PyOptions(apply_merge=True)
    found = options.from_yaml(text)
    found.validate()
    return found


def specified(text):
    return parse(text).services


def mistakes(text):
    for right, wrong in (
        ("ports: [", "prots: ["),
        ("stop_grace_period: 45s", "stop_grace_period: long"),
        ("source: site,", "source: sight,"),
        ("networks: [gateway]", "networks: [gate]"),
    ):
        checks.expect(right in text, f"{right} is not in the file")
        try:
            parse(text.replace(right, wrong))
        except ValueError:
            continue
        raise AssertionError(f"{wrong} is accepted")


def needs_version(text):
    try:
        interpolated(text, {})
    except KeyError:
        return
    raise AssertionError("it is read without one")


def secrets(folder):
    script = folder / "compose/secrets.sh"
    checks.run("sh", script)
    made = {path: path.read_bytes() for path in (folder / "compose/secrets").iterdir()}
    checks.run("sh", script)
    checks.expect(made == {path: path.read_bytes() for path in made}, "a second run changes secrets")


def files(text, folder):
    found = parse(text)
    for kind in (found.configs, found.secrets):
        for name, source in kind.items():
            checks.expect((folder / "compose" / source.file).is_file(), f"{name}: {source.file} is missing")


def mount(service, folder, configuration, user):
    """Files of a service in their places."""
    for kind, default in (("configs", "/"), ("secrets", "/run/secrets/")):
        for it in getattr(service, kind) or []:
            name = it if isinstance(it, str) else it.source
            target = default + name if isinstance(it, str) or not it.target else it.target
            source = folder / "compose" / getattr(configuration, kind)[name].file
            machine.put(target, source.read_bytes(), owner=user if kind == "secrets" else 0, mode=0o600 if kind == "secrets" else 0o644)


def runs(services, folder, place):
    configuration = parse(interpolated((folder / "compose/gateway.yaml").read_text(), {"AGENTD_VERSION": "1"}))
    nodes = [services[name] for name in ("gateway-1", "gateway-2")]
    addresses = [next(iter(node.networks.values())).ipv4_address for node in nodes]
    for number, address in enumerate(addresses, 1):
        machine.add_address(address, number)
    database = services["postgres"].environment
    mount(services["postgres"], folder, configuration, 0)
    mount(services["redis"], folder, configuration, 0)
    password = Path(database["POSTGRES_PASSWORD_FILE"]).read_text()
    redis = services["redis"].command
    store = machine.postgres(place, database["POSTGRES_USER"], database["POSTGRES_DB"], password)
    with contextlib.ExitStack() as stack:
        models = stack.enter_context(machine.models())
        stack.enter_context(store)
        stack.enter_context(machine.process(redis, cwd=place, ready=machine.accepts("127.0.0.1", 6379)))
        for node, address in zip(nodes, addresses):
            stack.enter_context(start(node, address, models, folder, configuration))
        mount(services["nginx"], folder, configuration, 0)
        # The image of nginx has this site only, as Debian's package has its own.
        Path("/etc/nginx/sites-enabled/default").unlink(missing_ok=True)
        os.makedirs("/var/log/nginx", exist_ok=True)
        os.makedirs("/var/lib/nginx", exist_ok=True)
        site = Path("/etc/nginx/conf.d/default.conf")
        checks.expect(site.is_file(), "the site is where the image of nginx reads it")
        checks.run("nginx", "-t")
        nginx = ["nginx", "-g", "daemon off;"]
        stack.enter_context(machine.process(nginx, ends=3, ready=machine.accepts("127.0.0.1", 443)))
        key = create_key(nodes[0], addresses[0])
        certificate = "/etc/nginx/tls/gateway.crt"
        body = {"model": "big", "messages": [{"role": "user", "content": "hello"}]}
        ask = lambda: machine.ask("gateway.example", 443, "POST", "/v1/chat/completions", key, body, certificate)
        for _ in range(20):
            status, answer = ask()
            checks.expect(status == 200 and "with Bearer replace-this-key" in answer, f"{status} {answer}")
        # Series that begin with the first of their kind.
        machine.ask(addresses[0], 8080, "POST", "/v1/chat/completions", key, body | {"stream": True})
        machine.ask(addresses[0], 8080, "GET", "/v1/responses/resp_1", key)
        machine.ask(addresses[0], 8080, "GET", "/v1/vector_stores", key)
        machine.ask(addresses[0], 8080, "GET", "/v1/organizations", "a-wrong-token")
        served = [machine.ask(address, 9100, "GET", "/metrics")[1] for address in addresses]
        checks.expect(all("\ngateway_requests_total{" in page for page in served), "both nodes serve")
        closed = machine.ask("gateway.example", 443, "GET", "/metrics", authority=certificate)
        checks.expect(closed[0] == 404, f"the metrics are not public: {closed}")
    return served[0]


def start(node, address, models, folder, configuration):
    """A node with an address of its own: without containers, all of them would listen on the same port."""
    mount(node, folder, configuration, machine.USER)
    config = config_of(address)
    text = Path("/etc/agentd/gateway.toml").read_text()
    state = f"/var/lib/state-{address}"
    machine.state_folder(state)
    for old, new in (("0.0.0.0", address), ("/var/lib/agentd-gateway", state), ("https://models.example/v1", models)):
        checks.expect(old in text, f"{old} is not in the configuration")
        text = text.replace(old, new)
    machine.put(config, text)
    command = [machine.AGENTD, *["gateway", "--config", config]]
    checks.expect(node.command == ["gateway", "--config", "/etc/agentd/gateway.toml"], f"{node.command}")
    user = int(node.user.split(":")[0])
    ready = lambda: machine.status(address, 8080, "/readyz") == 200
    return machine.process(machine.as_user(user, command), env=machine.ENVIRONMENT | dict(node.environment), ready=ready, seconds=45)


def config_of(address):
    return f"/etc/agentd/{address}.toml"


def create_key(node, address):
    command = [machine.AGENTD, "gateway", "create-key", "--config", config_of(address)]
    user = int(node.user.split(":")[0])
    done = subprocess.run(machine.as_user(user, command), capture_output=True, text=True, env=machine.ENVIRONMENT)
    checks.expect(done.returncode == 0, done.stderr)
    return done.stdout.strip()
