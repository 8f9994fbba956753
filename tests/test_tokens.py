"""The tokenizer that measures how much of a model's context palaver takes."""

from __future__ import annotations

from tests.tokens import count_tokens, tool_tokens


def test_tokens_are_counted_as_o200k_base_does():
    """The figures of npm's gpt-tokenizer 4.0.0."""
    assert count_tokens("hello world") == 2
    assert count_tokens("héllo 世界 🎉🎉  \n\n a'll DON'T 12345 \u200d") == 15
    assert count_tokens(["hello world", "hello world"]) == 4
    assert count_tokens("<|endoftext|>") == 7  # as text, not as the special token


def test_a_tool_is_its_name_description_and_input_schema():
    tool = {"name": "a", "description": "b", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    text = '{"name":"a","description":"b","inputSchema":{"type":"object"}}'
    assert tool_tokens(tool) == count_tokens(text)
    assert tool_tokens(tool, output=True) > tool_tokens(tool)
    assert tool_tokens({**tool, "title": "c"}) == tool_tokens(tool)
