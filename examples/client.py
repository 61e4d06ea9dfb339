"""A whole client of the application server: python3 examples/client.py [PATH_OF_AGENTD]"""
import json, subprocess, sys

agentd = sys.argv[1] if len(sys.argv) > 1 else "agentd"
server = subprocess.Popen([agentd, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
send = lambda **message: print(json.dumps(message), file=server.stdin, flush=True)
receive = lambda wanted: next(m for m in map(json.loads, server.stdout) if wanted(m))

send(id=0, method="initialize", params={"clientInfo": {"name": "ten_lines", "version": "1"}})
send(method="initialized")
send(id=1, method="thread/start", params={"modelProvider": "offline", "model": "echo"})
thread = receive(lambda m: m.get("id") == 1)["result"]["thread"]["id"]
send(id=2, method="turn/start", params={"threadId": thread, "input": [
    {"type": "text", "text": "Hello from a client of ten lines"}]})
for message in map(json.loads, server.stdout):
    if message.get("method") == "item/agentMessage/delta":
        print(message["params"]["delta"], end="", flush=True)
    if message.get("method") == "turn/completed":
        sys.exit(print("\n" + message["params"]["turn"]["status"]))
