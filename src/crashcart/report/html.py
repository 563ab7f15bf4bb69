"""A diagnosis as one self-contained page: no network, no scripts, everything escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.report.terminal import how_it_ended

if TYPE_CHECKING:
    from crashcart.model import Diagnosis

__all__ = ["html"]

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ headline }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --red: #c0392b; --green: #1e8449; --amber: #b9770e; }
@media (prefers-color-scheme: dark) { :root { --red: #ff7b6b; --green: #5dd39e; --amber: #f0b95b; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
h3 { font-size: 1rem; margin: .9rem 0 .3rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); border-left: 3px solid var(--line); padding: .5rem .8rem; margin: .3rem 0 .8rem;
      white-space: pre-wrap; overflow-wrap: anywhere; }
.how, .where, .why { opacity: .75; }
.where { font: 13px ui-monospace, monospace; }
.cause h1 { color: var(--red); } .contributing h1 { color: var(--amber); } .healthy h1 { color: var(--green); }
.tag { font-size: .8rem; border: 1px solid var(--line); border-radius: 1rem; padding: 0 .6rem; white-space: nowrap; }
.add { color: var(--green); } .del { color: var(--red); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .4rem 0; }
dt { opacity: .75; } dd { margin: 0; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } summary { cursor: pointer; }
footer { margin-top: 2.5rem; opacity: .6; font-size: .85rem; }
</style>
</head>
<body>
<header class="{{ tone }}">
<h1>{{ headline }}</h1>
<p class="how">{% if main %}<code>{{ main.cause }}</code> · {% endif %}{{ how }}</p>
</header>
{% macro signs(list) %}{% for sign in list %}
<p>{{ sentence(sign.says) }}</p>
{% for item in sign.evidence %}<div class="where">{{ item.where }}{% if item.rank is not none %} · rank {{ item.rank }}{% endif %}</div>
<pre>{{ item.quote }}</pre>{% endfor %}{% endfor %}{% endmacro %}
{% macro fixes(list) %}{% for fix in list %}
<h3>{{ fix.title }} <span class="tag">{{ fix.safety }}</span></h3>
{% if fix.why %}<p class="why">{{ sentence(fix.why) }}</p>{% endif %}
{% if unresolved(fix) %}<pre>{% for line in unresolved(fix) %}{{ line }}
{% endfor %}</pre>{% endif %}
{% if fix.environment or fix.arguments %}<pre>{% for name, value in fix.environment.items() %}export {{ name }}={{ value }}
{% endfor %}{% for name, value in fix.arguments.items() %}{{ name }}={{ value }}
{% endfor %}</pre>{% endif %}
{% if fix.diff %}<pre>{% for line in fix.diff.splitlines() %}<span class="{{ 'add' if line.startswith('+') else 'del' if line.startswith('-') else '' }}">{{ line }}</span>
{% endfor %}</pre>{% endif %}{% endfor %}{% endmacro %}
{% macro experiment(test) %}{% if test %}<p>{{ test.title }}.</p>
<dl><dt>start from</dt><dd>{{ test.start_from }}</dd><dt>run until</dt><dd>{{ test.stop_after }}</dd>
<dt>confirmed if</dt><dd>{{ test.confirms }}</dd><dt>refuted if</dt><dd>{{ test.refutes }}</dd></dl>{% endif %}{% endmacro %}
{% if main %}
<section><h2>Evidence</h2>{{ signs(main.signs | rejectattr('strength', 'equalto', 'against') | list) }}</section>
{% set opposed = main.signs | selectattr('strength', 'equalto', 'against') | list %}
{% if opposed %}<section><h2>Evidence against</h2>{{ signs(opposed) }}</section>{% endif %}
{% if main.fixes %}<section><h2>Fix</h2>{{ fixes(main.fixes) }}</section>{% endif %}
{% if main.experiment %}<section><h2>How to confirm</h2>{{ experiment(main.experiment) }}</section>{% endif %}
{% endif %}
{% if others %}<section><h2>Also possible</h2>
{% for finding in others %}<details><summary>{{ finding.title }} <span class="tag">{{ finding.cause }}</span>
<span class="tag">{{ finding.role }}, {{ finding.level }}</span></summary>
{{ signs(finding.signs) }}{{ fixes(finding.fixes) }}{{ experiment(finding.experiment) }}</details>{% endfor %}</section>{% endif %}
{% if diagnosis.notes %}<section><h2>About the job</h2>
<ul>{% for note in diagnosis.notes %}<li>{{ note.quote }} <span class="where">{{ note.where }}</span></li>{% endfor %}</ul></section>{% endif %}
{% if diagnosis.ruled_out %}<section><h2>Ruled out</h2>
<ul>{% for one in diagnosis.ruled_out %}<li>{{ one.title }} <code>{{ one.cause }}</code></li>{% endfor %}</ul></section>{% endif %}
{% if diagnosis.not_looked %}<section><h2>Not checked</h2>
<ul>{% for gap in diagnosis.not_looked %}<li>{{ gap.what }}{% if gap.why %}: {{ gap.why }}{% endif %}{% if gap.how %} ({{ gap.how }}){% endif %}</li>{% endfor %}</ul></section>{% endif %}
<footer>crashcart {{ diagnosis.verb }} {{ diagnosis.subject }}</footer>
</body>
</html>
"""


def html(diagnosis: Diagnosis) -> str:
    """The whole page."""
    from jinja2 import Environment

    from crashcart.report.terminal import headline, main_finding, sentence, unresolved

    main = main_finding(diagnosis)
    template = Environment(autoescape=True, trim_blocks=False).from_string(_PAGE)
    return template.render(
        diagnosis=diagnosis,
        main=main,
        others=[finding for finding in diagnosis.findings if finding is not main],
        headline=headline(diagnosis),
        how=how_it_ended(diagnosis.ending),
        sentence=sentence,
        unresolved=unresolved,
        tone=main.role if main else "healthy",
    )
