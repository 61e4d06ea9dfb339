"""Generated conversations and answers, the same in each run: the requests in a form of no wire, the answers as steps of
a script of `agentd model-server`.
"""

from dataclasses import dataclass, field

TOOLS = {
    "weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "read": {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}}},
}
# One transparent pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WORDS = ["plum", "naïve", "日本語", "👩‍👩‍👧", '"quoted"', "\\back", "data: x", "line\nbreak", "tab\there", "<b>&amp;</b>", "{\"a\":1}", "e\u0301", "\u2028"]


@dataclass
class Turn:
    """A part of a conversation: texts and images of the user, or an answer with its calls and their results."""

    role: str
    text: str
    image: bool = False
    # (id, name, arguments, result)
    calls: list = field(default_factory=list)


@dataclass
class Exchange:
    system: str | None
    turns: list
    offers_tools: bool
    temperature: float | None
    steps: list
    expected: dict
    texts: list


def sentence(random):
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, 12)))


def arguments(random, name):
    if name == "weather":
        return {"city": sentence(random)}
    return {"path": sentence(random), "lines": [random.randint(-9, 9) for _ in range(random.randint(0, 4))]}


def conversation(random):
    """Turns that alternate, and the texts that must reach the model."""
    turns, texts = [], []
    for at in range(random.randint(0, 3)):
        turns.append(Turn("user", sentence(random), image=random.random() < 0.2))
        calls = []
        for number in range(random.choice([0, 0, 1, 2])):
            name = random.choice(list(TOOLS))
            calls.append((f"call_{at}_{number}", name, arguments(random, name), sentence(random)))
        turns.append(Turn("assistant", sentence(random), calls=calls))
        if calls:
            turns.append(Turn("assistant", sentence(random)))
    turns.append(Turn("user", sentence(random), image=random.random() < 0.2))
    for turn in turns:
        texts += [turn.text, *(result for *_, result in turn.calls)]
    return turns, texts


def answer(random, offers_tools):
    """The steps of an answer, and what a client must read."""
    expected = {"text": "", "thoughts": "", "calls": [], "end": "ended"}
    counted = {"input_tokens": random.randint(50, 5000), "output_tokens": random.randint(1, 900)}
    if random.random() < 0.4:
        counted["cached_input_tokens"] = random.randint(1, counted["input_tokens"])
    steps = [{"usage": counted}]
    if random.random() < 0.4:
        expected["thoughts"] = sentence(random)
        steps.append({"reasoning": {"summary": [expected["thoughts"]], "chunk_chars": random.randint(1, 9)}})
    if random.random() < 0.8 or not offers_tools:
        expected["text"] = sentence(random)
        steps.append({"message": {"text": expected["text"], "chunk_chars": random.randint(1, 40)}})
    if offers_tools and (random.random() < 0.5 or not expected["text"]):
        for number in range(random.randint(1, 3)):
            name = random.choice(list(TOOLS))
            call = {"name": name, "arguments": arguments(random, name), "call_id": f"call_new_{number}"}
            steps.append({"function_call": call})
            expected["calls"].append((name, call["arguments"]))
    elif random.random() < 0.15:
        expected["end"] = "max_output_tokens"
        steps.append({"error": {"incomplete": "max_output_tokens"}})
    expected["usage"] = (counted["input_tokens"], counted.get("cached_input_tokens", 0), counted["output_tokens"])
    return steps, expected


def exchange(random):
    turns, texts = conversation(random)
    has_calls = any(turn.calls for turn in turns)
    offers_tools = has_calls or random.random() < 0.4
    system = sentence(random) if random.random() < 0.5 else None
    temperature = random.choice([None, None, 0.0, 0.5, 1.0])
    steps, expected = answer(random, offers_tools)
    return Exchange(system, turns, offers_tools, temperature, steps, expected, texts + ([system] if system else []))


def script(exchanges):
    """One response after the other: each checks that the texts of its request arrived."""
    return {"responses": [{"expect": {"contains": one.texts}, "steps": one.steps} for one in exchanges]}
