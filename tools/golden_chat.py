#!/usr/bin/env python3
"""Makes the golden file of the chat templates' tests from Hugging Face's transformers: crates/regard/tests/lab/golden/chat.json.

    golden_chat.py             writes it
    golden_chat.py --check     compares it with what this version of transformers writes

Needs the Python packages `transformers`, `tokenizers` and `jinja2`. The templates are written here. Each uses what published ones use:
loops with first and last, namespaces, macros, slices, methods of strings and dictionaries, tests, filters, whitespace control, loop
controls, JSON, generation blocks, exceptions.
"""

import argparse
import json
import sys
from pathlib import Path

from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

FILE = Path(__file__).resolve().parents[1] / "crates/regard/tests/lab/golden/chat.json"

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

TEMPLATES = {
    "turns between marks": """{%- for message in messages -%}
{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start|>assistant\n' }}{%- endif -%}""",
    "the system message joins the first turn": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
    {% set opening = '<<' + messages[0].content | trim + '>>\n\n' %}
    {% set turns = messages[1:] %}
{% else %}
    {% set opening = '' %}
    {% set turns = messages %}
{% endif %}
{% for turn in turns %}
    {% if (turn.role == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Turns must go user, assistant, user, ...') }}
    {% endif %}
    {% if turn.role == 'user' %}
[{{ (opening if loop.first else '') ~ turn.content.strip() }}]
    {% else %}
 {{ turn.content | trim }} {{ eos_token }}
    {% endif %}
{% endfor %}
""",
    "a namespace and a macro": """{%- macro header(role, extra=none) -%}
<{{ role | upper }}{% if extra %} {{ extra }}{% endif %}>
{%- endmacro -%}
{%- set state = namespace(users=0, last='') -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}{%- set state.users = state.users + 1 -%}{%- endif -%}
  {%- set state.last = message.role -%}
  {{- header(message.role, extra=('turn ' ~ state.users) if message.role == 'user' else none) + '\n' -}}
  {{- message.content -}}{{- '\n' -}}
{%- endfor -%}
{{- '(' ~ state.users ~ ' questions, last from ' ~ state.last ~ ')' -}}
{%- if add_generation_prompt %}
{{ header('assistant') }}
{%- endif -%}""",
    "thoughts are cut from earlier answers": """{%- for message in messages[::-1] -%}
{%- if message.role == 'user' -%}{{- 'latest: ' + message.content.split(' ')[0] + '\n' -}}{%- break -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- set content = message.get('content', '') -%}
{%- if message.role == 'assistant' and '</think>' in content -%}
{%- set content = content.split('</think>')[-1].lstrip('\n') -%}
{%- elif message.role == 'system' -%}
{%- continue -%}
{%- endif -%}
{{- message.role.title() + ': ' + content.replace('\n', ' / ') + '\n' -}}
{%- endfor -%}
{{- 'Assistant: ' -}}""",
    "tests and filters": """{% if messages is iterable and messages is not string %}{{ messages | length }} messages
{% endif %}
{% for message in messages %}
{% if message.content is string and message is mapping %}
{{ loop.index }}/{{ loop.length }} {{ message.role | capitalize }}: {{ message.content | length }} characters{% if not loop.last %},{% endif %}

{% endif %}
{% endfor %}
roles: {{ messages | map(attribute='role') | join(', ') }}
users: {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ tools is none }} {{ documents is defined }} {{ undefined_name is defined }} {{ undefined_name }}|{{ tools }}
{{ messages[-1].content[:5] }} {{ messages[0]['role'] in ['system', 'user'] }}""",
    "json": """{{ messages | tojson }}
{{ messages[0] | tojson(indent=2) }}
{{ 'quoted "text", é and <tags> & more' | tojson }} {{ [1, 2.5, true, none] | tojson }}""",
    "generation blocks": """{% for message in messages %}
{% if message.role == 'assistant' %}
{%- generation -%}
{{ message.content }}{{ eos_token }}
{%- endgeneration -%}
{% else %}
{{ message.role }}> {{ message.content }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}assistant> {% endif %}""",
    "dictionaries": """{% set names = {'system': 'S', 'user': 'U', 'assistant': 'A'} %}
{% for key, value in names.items() %}{{ key }}={{ value }};{% endfor %}

{% for message in messages %}{{ names[message.role] }}{{ names.get(message.role, '?') }}
{% for key in message %}{{ key }} {% endfor %}
{% if loop.previtem is defined %}after {{ loop.previtem.role }}{% endif %}

{% endfor %}
{% set parts = messages[0].content.split() %}{{ parts[0].startswith('W') }} {{ parts[-1].endswith('?') }} {{ parts | first }}{{ parts | last }}
{{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 3 }} {{ -3 | abs }} {{ 'x' * 3 }} {{ 'a' < 'b' and not false }}""",
    "only two turns": """{% if messages | length > 2 %}{{ raise_exception('At most two messages, got ' ~ messages | length) }}{% endif %}
{% for message in messages %}{{ message.content }}
{% endfor %}""",
    "broken": "{% for message in messages %}{{ message.content }",
}

QUESTION = {"role": "user", "content": "What is attention?"}
CONVERSATIONS = {
    "a question": [QUESTION],
    "a system message": [{"role": "system", "content": "  Answer briefly.\n"}, QUESTION],
    "several turns": [
        {"role": "system", "content": "You are kind."},
        QUESTION,
        {"role": "assistant", "content": "<think>\nHm: \"hard\".\n</think>\n\nA weighted mean."},
        {"role": "user", "content": "Of what,\nexactly? Ça va? 😀"},
    ],
    "two questions": [QUESTION, {"role": "user", "content": "And?"}],
}


def cases():
    """Every template with every conversation, and what transformers makes of it."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **SPECIAL)
    found = []
    for name, template in TEMPLATES.items():
        for title, messages in CONVERSATIONS.items():
            case = {"template": name, "conversation": title}
            try:
                case["text"] = tokenizer.apply_chat_template(
                    messages, chat_template=template, tokenize=False, add_generation_prompt=True)
            except TemplateError as error:
                case["error"] = error.message
            found.append(case)
    return {"special": SPECIAL, "templates": TEMPLATES, "conversations": CONVERSATIONS, "cases": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    made = cases()
    if arguments.check:
        if json.loads(FILE.read_text(encoding="utf-8")) != made:
            sys.exit(f"{FILE} differs from what transformers writes now")
        print(f"{FILE.name}: {len(made['cases'])} cases as before")
        return
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {len(made['cases'])} cases, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
