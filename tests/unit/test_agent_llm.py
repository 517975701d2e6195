"""The llm agent without a network: capabilities, prices, think blocks, options, and what the factory refuses."""

from __future__ import annotations

import pytest

from core.agents.base import Agent, Request
from core.agents.capabilities import capabilities_of, refused_parameter
from core.agents.catalogue import entry
from core.agents.llm import LlmAgent, LlmOptions
from core.agents.llm_errors import parse_retry_after, provider_words, to_agent_error
from core.agents.llm_factory import llm_agent
from core.agents.prices import Price, listed_price, prompt_bound, to_nano, to_usd
from core.agents.think import ThinkSplitter
from core.errors import AgentPermanent
from core.settings import Secret, Settings
from core.types import Message, Role, Transcript, Usage


def request(text: str = "hi", **fields) -> Request:
    messages = (Message("system", "Be brief."), Message("user", text))
    return Request(Role.WORKER, Transcript(text), messages, "n0nce", 0, 10.0, **fields)


@pytest.fixture
def settings(tmp_path) -> Settings:
    keys = {"OPENAI_API_KEY": Secret("sk-openai-0123456789abcdef"), "TRINITY_KEY_LAB": Secret("lab-0123456789abcdef")}
    return Settings(data_dir=tmp_path, cache_dir=tmp_path, keys=keys)


# -- leading <think> blocks ------------------------------------------------------------------------------------


def split(text: str, size: int) -> tuple[str, str]:
    splitter, visible, reasoning = ThinkSplitter(), "", ""
    pieces = [splitter.feed(text[i : i + size]) for i in range(0, len(text), size)] + [splitter.end()]
    for piece in pieces:
        visible, reasoning = visible + piece.text, reasoning + piece.reasoning
    return visible, reasoning


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        ("plain  text\n", "plain  text\n", ""),
        ("  leading blanks stay", "  leading blanks stay", ""),
        ("<think>hm</think>\n\nFour.", "Four.", "hm"),
        ("\n <think>a < b </thin></think>Four.", "Four.", "a < b </thin>"),
        ("<think>never closed", "", "never closed"),
        ("<think>only</think>\n", "", "only"),
        ("<thinker> is not the tag", "<thinker> is not the tag", ""),
        ("Four. <think>later</think>", "Four. <think>later</think>", ""),
        ("<think></think>x</think>", "x</think>", ""),
        ("<thi", "<thi", ""),
        ("", "", ""),
    ],
)
def test_only_a_leading_think_block_is_taken_off(text, visible, reasoning, size):
    assert split(text, size) == (visible, reasoning)


# -- what a model takes ----------------------------------------------------------------------------------------


def test_minimal_reasoning_effort_is_spelled_as_each_provider_wants_it():
    assert capabilities_of("openai/gpt-5").effort == "minimal"
    assert capabilities_of("openai/gpt-5.1").effort == "none"
    assert capabilities_of("openai/o3").effort == "low"
    assert capabilities_of("gemini/gemini-2.5-pro").effort == "minimal"
    assert capabilities_of("anthropic/claude-sonnet-4-5").effort is None  # silence is the least: no thinking block
    assert capabilities_of("mistral/mistral-small-latest").effort == "none"  # anything else there means "high"
    assert capabilities_of("openai/gpt-4o-mini").effort is None
    assert capabilities_of("openai/never-heard-of-it").effort is None


def test_context_lengths_come_from_the_list_and_the_pool_file_overrules_it():
    assert capabilities_of("openai/gpt-4o-mini").context_length == 128_000
    mended = capabilities_of("openai/own", {"temperature": False, "context_length": 2048, "effort": "high"})
    assert (mended.temperature, mended.context_length, mended.effort) == (False, 2048, "high")


@pytest.mark.parametrize("wrong", [{"temprature": True}, {"effort": "huge"}, {"max_tokens_name": "limit"}])
def test_overrides_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="capabilities"):
        capabilities_of("openai/own", wrong)


@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1)", "temperature"),
        ("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        ("Developer instruction is not enabled... system role not supported", "system"),
        ("This model's maximum context length is 100 tokens", None),
        ("temperature must be a number", None),
    ],
)
def test_a_refused_parameter_is_recognised(message, parameter):
    assert refused_parameter(message) == parameter


def test_what_the_provider_refused_is_not_sent_again():
    agent = LlmAgent("a", "openai/own", options=LlmOptions(reasoning_effort="low"))
    assert agent.asked(request())["temperature"] == 0.0
    for refused in ("temperature", "reasoning_effort", "max_tokens", "system"):
        agent._typed(Refused(f"unsupported parameter: {REFUSALS[refused]}"), "")
    asked = agent.asked(request())
    assert set(asked) == {"model", "messages", "max_completion_tokens", "base"}
    assert asked["messages"] == [{"role": "user", "content": "Be brief.\n\nhi"}]


def test_a_parameter_is_dropped_once_and_then_the_refusal_stands():
    agent = LlmAgent("a", "openai/own")
    agent._typed(Refused("unsupported parameter: temperature"), "")
    assert type(agent._typed(Refused("unsupported parameter: temperature"), "")) is AgentPermanent


class Refused(Exception):
    status_code = 400


REFUSALS = {
    "temperature": "temperature",
    "reasoning_effort": "reasoning_effort",
    "max_tokens": "max_tokens",
    "system": "system role",
}


# -- prices ----------------------------------------------------------------------------------------------------


def test_list_prices_agree_with_litellm(settings):
    import litellm

    for model in (
        "openai/gpt-4o-mini",
        "anthropic/claude-sonnet-4-5",
        "gemini/gemini-2.5-pro",
        "deepseek/deepseek-chat",
    ):
        info, price = litellm.get_model_info(model), listed_price(model)
        assert price is not None
        assert (price.prompt, price.completion) == (info["input_cost_per_token"], info["output_cost_per_token"])


def test_an_unlisted_model_and_one_listed_at_nothing_have_no_known_price():
    assert listed_price("openai/never-heard-of-it") is None
    assert entry("gemini/gemini-3-pro-preview") == {} or listed_price("gemini/gemini-3-pro-preview") is None
    assert listed_price("ollama/llama3") is None  # free only where the pool file says so
    assert LlmAgent("a", "ollama/llama3", free=True).price is not None


def test_the_same_weights_elsewhere_do_not_borrow_a_price():
    assert entry("openai/gpt-4o-mini") and not entry("groq/gpt-4o-mini")


def test_long_prompts_cost_their_own_price_and_the_bound_covers_it():
    price = listed_price("gemini/gemini-2.5-pro")
    short, long = Usage(1000, 100), Usage(250_000, 100)
    assert price.of(short) == pytest.approx(1000 * 1.25e-6 + 100 * 1e-5)
    assert price.of(long) == pytest.approx(250_000 * 2.5e-6 + 100 * 1.5e-5)
    assert price.at_most(250_000, 100) >= price.of(long)
    assert price.of(Usage(1000, 0), cached_tokens=1000) < price.of(Usage(1000, 0))


def test_money_is_exact_and_rounds_up():
    assert to_nano(0.1) + to_nano(0.2) == to_nano(0.3)
    assert to_nano(1.0000000001e-9 * 1.5) == 2
    assert to_usd(to_nano(0.000123)) == pytest.approx(0.000123, abs=1e-9)
    assert Price.per_million(3.0, 15.0).of(Usage(1_000_000, 0)) == pytest.approx(3.0)


def test_no_prompt_has_more_tokens_than_its_bound():
    import litellm

    for text in ("a" * 500, "你好，世界。" * 50, "1234567890" * 40, "😀" * 30, " \n\t" * 100, "don't {}[]"):
        messages = (Message("system", "x"), Message("user", text))
        counted = litellm.token_counter(
            model="gpt-4o-mini", messages=[{"role": m.role, "content": m.content} for m in messages]
        )
        assert counted <= prompt_bound(messages)


# -- errors and their words --------------------------------------------------------------------------------------


def test_retry_after_is_seconds_or_a_date():
    assert parse_retry_after("2") == 2.0
    assert parse_retry_after("0.5") == 0.5
    assert parse_retry_after("-3") == 0.0
    assert parse_retry_after("Wed, 21 Oct 2026 07:28:10 GMT", now=1792567680.0) == pytest.approx(10.0)
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    for nonsense in ("soon", "", "nan", "inf", "99999999999999999999999999999 Oct"):
        assert parse_retry_after(nonsense) is None


def test_a_providers_words_are_short_on_one_line_and_hold_no_key():
    words = r'"message": "bad key sk-abcdef0123456789abcdef\\n now"'
    body = 'litellm.APIError: AnthropicException - b\'{"error": {' + words + "}}'"
    assert provider_words(body) == "bad key *** now"
    assert provider_words("the key is hunter2hunter2", ["hunter2hunter2"]) == "the key is ***"
    assert provider_words("<HTML><body>502") == "it sent a web page instead of an answer"
    assert len(provider_words("x" * 5000)) == 300
    assert "\x1b" not in provider_words("\x1b[31mred\x00")


def test_a_failure_nobody_foresaw_is_permanent_and_logged(caplog):
    error, refused = to_agent_error(KeyError("odd sk-abcdef0123456789abcdef"), who="alpha")
    assert isinstance(error, AgentPermanent) and refused is None
    assert "sk-abcdef" not in str(error) + caplog.text and "unclassified" in caplog.text


# -- the factory -------------------------------------------------------------------------------------------------


def test_an_entry_becomes_an_agent(settings):
    agent = llm_agent("gpt", {"model": "openai/gpt-4o-mini", "max_tokens": 64, "roles": ["verifier"]}, settings)
    assert isinstance(agent, Agent) and agent.unusable() is None and not agent.free
    assert agent.asked(request())["max_tokens"] == 64
    assert agent.asked(request(max_tokens=9))["max_tokens"] == 9
    assert agent.can_play(Role.VERIFIER, Transcript("q")) is None
    assert "not used as a worker" in agent.can_play(Role.WORKER, Transcript("q"))


def test_a_missing_key_names_its_variable(settings):
    agent = llm_agent("claude", {"model": "anthropic/claude-sonnet-4-5"}, settings)
    assert agent.unusable() == "no key: set ANTHROPIC_API_KEY"


def test_own_servers_get_own_keys_only(settings):
    own = {"model": "openai/qwen", "api_base": "http://127.0.0.1:8000/v1", "free": True}
    assert llm_agent("own", own, settings)._key.reveal() == ""
    assert llm_agent("own", {**own, "key": "TRINITY_KEY_LAB"}, settings)._key.reveal() == "lab-0123456789abcdef"
    with pytest.raises(ValueError, match="TRINITY_KEY_"):
        llm_agent("own", {**own, "key": "OPENAI_API_KEY"}, settings)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "litellm id"),
        ({"model": "gpt-5"}, "litellm id"),
        ({"model": "bedrock/x"}, "provider 'bedrock'"),
        ({"model": "openai/x", "api_key": "sk-1"}, "unknown field 'api_key'"),
        ({"model": "openai/x", "key": "os.environ/AWS_SECRET"}, "environ/NAME"),
        ({"model": "openai/x", "key": "AWS_SECRET"}, "must be OPENAI_API_KEY"),
        ({"model": "openai/x", "api_base": "file:///etc/passwd"}, "http"),
        ({"model": "openai/x", "api_base": "http://user:pw@host/v1"}, "user name"),
        ({"model": "openai/x", "api_base": "http://host:99999999/v1"}, "http"),
        ({"model": "openai/x", "price": {"input": 1}}, "price"),
        ({"model": "openai/x", "price": {"input": -1, "output": 2}}, "price"),
        ({"model": "openai/x", "price": {"input": 0, "output": 0}}, "free: true"),
        ({"model": "openai/x", "free": "yes"}, "free"),
        ({"model": "openai/x", "max_tokens": 0}, "max_tokens"),
        ({"model": "openai/x", "temperature": 3}, "temperature"),
        ({"model": "openai/x", "reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"model": "openai/x", "roles": ["judge"]}, "judge"),
    ],
)
def test_the_factory_says_what_is_wrong(entry, words, settings):
    with pytest.raises(ValueError, match=words):
        llm_agent("x", entry, settings)


def test_the_fingerprint_follows_the_model_and_its_options(settings):
    entry = {"model": "openai/gpt-4o-mini"}
    base = llm_agent("a", entry, settings).fingerprint
    assert llm_agent("other-name", entry, settings).fingerprint == base
    for change in ({"temperature": 0.5}, {"prompt_style": "tiny"}, {"model": "openai/gpt-4o"}, {"thinking": False}):
        assert llm_agent("a", {**entry, **change}, settings).fingerprint != base


def test_hybrid_models_are_switched_not_asked_for_effort(settings):
    agent = llm_agent("q", {"model": "openai/qwen3", "thinking": False, "reasoning_effort": "low"}, settings)
    asked = agent.asked(request())
    assert asked["extra_body"] == {"chat_template_kwargs": {"enable_thinking": False}}
    assert "reasoning_effort" not in asked
