"""One line for each check, as `cargo xtask interop` reads them."""

import subprocess
import sys

passed, failed = 0, 0


def check(group, name, work):
    """Runs a check. What it raises is why it failed; returns whether it passed."""
    global passed, failed
    try:
        work()
    except Exception as error:  # each check stands alone
        failed += 1
        print(f"FAIL  {group}: {name}: {type(error).__name__}: {str(error)[-800:]!r}", flush=True)
        return False
    passed += 1
    print(f"ok    {group}: {name}", flush=True)
    return True


def end():
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(failed > 0)


def run(*command, code=0, seconds=300, **options):
    """Runs a command without input; returns what it wrote to both of its outputs."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
        **options,
    )
    output = done.stdout.decode(errors="replace")
    if done.returncode != code:
        raise AssertionError(f"{command[0]} exited with {done.returncode}, not {code}: {output}")
    return output


def expect(condition, what):
    if not condition:
        raise AssertionError(what)
