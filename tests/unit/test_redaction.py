"""No secret and no terminal trick reaches a report, whatever form it has and wherever it stands; nothing else is hidden.

Secrets are made here from parts, so that scanners find none in this file. Beginnings, alphabets and lengths are those of the
rules and tests of gitleaks and detect-secrets.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pty
import random
import re
import string
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from crashcart.cli import main
from crashcart.escapes import one_line, plain
from crashcart.model import Evidence, Fact
from crashcart.redact import HIDDEN, clean, clean_all
from crashcart.report.data import json_text
from crashcart.report.data import plain as as_data
from crashcart.run.facts import describe
from crashcart.secret_search import names_secret, stands_for_secret
from crashcart.verbs.check import check
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ALPHABETS = {
    "A": string.ascii_letters + string.digits, "a": string.ascii_lowercase + string.digits, "l": string.ascii_lowercase,
    "U": string.ascii_uppercase + string.digits, "h": "0123456789abcdef", "H": "0123456789ABCDEF", "d": string.digits,
    "W": string.ascii_letters + string.digits + "_-", "B": string.ascii_letters + string.digits + "+/", "L": string.ascii_letters,
}  # fmt: skip
# name: beginning with a bar in it, then pieces of an alphabet and a length; what is in quotes stands as it is.
SHAPED = """
1password: A3|- U6 "-" U11 "-" U5 "-" U5 "-" U5; 1password-service: ops|_eyJ B250; adobe: p8|e- a32; age: AGE-SECRET|-KEY-1 U58;
airtable: p|at A14 "." h64; alibaba: LT|AI a20; anthropic: sk-|ant-api03- W93 "AA"; anthropic-admin: sk-|ant-admin01- W93 "AA";
artifactory: AKC|p A69; artifactory-reference: cmV|md A59; atlassian: ATAT|T3 W186; authress: s|c_ a20 "." a5 ".acc-" a20 "." a60;
aws: AK|IA U16; aws-session: AS|IA U16; bedrock: AB|SK B120; bedrock-short: bedrock|-api-key- B80; clickhouse: 4b|1d A38;
clojars: CLOJ|ARS_ a60; cloudflare-ca: v1|.0- h24 "-" h146; databricks: da|pi h32; digitalocean: do|p_v1_ h64; doppler: dp|.pt. a43;
duffel: duf|fel_live_ a43; dynatrace: dt|0c01. a24 "." a64; easypost: EZ|AK a54; facebook-page: EA|AM a120; flutterwave: FLW|SECK_TEST- h32 "-X";
flyio: fo|1_ W43; frameio: fi|o-u- a64; gcp: AI|za W35; github: gh|p_ A36; github-oauth: gh|o_ A36; github-app: gh|s_ A36;
github-fine: github|_pat_ A82; gitlab: gl|pat- W20; gitlab-routable: gl|pat- W40 "." a9; gitlab-runner: gl|rt- W20; gitlab-deploy: gl|dt- W20;
gitlab-registration: GR|1348941 W20; grafana: gl|sa_ A32 "_" h8; grafana-cloud: gl|c_ B40; groq: gs|k_ A52; harness: pa|t. W22 "." A24 "." A20;
heroku: HR|KU-AA W58; huggingface: h|f_ L34; huggingface-lower: h|f_ l34; huggingface-org: api|_org_ L34; infracost: ic|o- A32;
intra42: s-|s4t2ud- h64; jwt: ey|J A33 ".ey" A40 "." W43; linear: lin|_api_ a40; mailchimp: | h32 "-us12"; maxmind: | A6 "_" A29 "_m" "mk";
netlify: nf|p_ A36; newrelic: NR|AK- U27; notion: nt|n_ d11 A35; npm: np|m_ a36; nvidia: nv|api- W60; octopus: AP|I- U26; openai: sk|-proj- W74 "T3BlbkFJ" W74;
openai-old: sk|- A20 "T3BlbkFJ" A20; openshift: sha|256~ W43; perplexity: pp|lx- A48; plaid: access|-production- h8 "-" h4 "-" h4 "-" h4 "-" h12;
planetscale: psc|ale_tkn_ A43; postman: PM|AK- h24 "-" h34; prefect: pn|u_ A36; pulumi: pu|l- h40; pypi: py|pi-AgEIcHlwaS5vcmc W80; readme: rd|me_ a70;
replicate: r8|_ A37; rubygems: rub|ygems_ h48; scalingo: tk|-us- W48; sendgrid: S|G. A22 "." A43; sendinblue: xke|ysib- h64 "-" a16;
sentry: sn|tryu_ h64; settlemint: sm|_pat_ A16; shippo: ship|po_live_ h40; shopify: sh|pat_ h32; slack-bot: xo|xb- d12 "-" d12 "-" A24;
slack-user: xo|xp- d12 "-" d12 "-" d12 "-" a32; slack-app: xa|pp-1- U11 "-" d13 "-" a64; slack-hook: hooks.sl|ack.com/services/T U8 "/B" U8 "/" A24;
discord-hook: disc|ord.com/api/webhooks/ d18 "/" W68; teams-hook: webhook.off|ice.com/webhookb2/ h8 "-" h4 "-" h4 "-" h4 "-" h12 "/IncomingWebhook/" h32;
telegram: | d9 ":AA" W33; discord: M| A23 "." W6 "." W27; sonar: sq|p_ h40; sourcegraph: sg|p_ h40; square: sq|0atp- W22; square-oauth: sq|0csp- W43;
stripe: sk|_live_ A24; stripe-test: rk|_test_ A24; tailscale: ts|key-auth- A16; twilio: S|K h32; typeform: tf|p_ a59; vault: hv|s. W95; vault-batch: hv|b. W140;
tavily: tv|ly- A32; honeycomb: hc|aik_ a58; tencent: AK|ID A32; circleci: CCI|PAT_ A22 "_" h40; fireworks: f|w_ A24; nuget: o|y2 a43;
aws-mws: amzn|.mws. h8 "-" h4 "-" h4 "-" h4 "-" h12; launchdarkly-sdk: sd|k- h8 "-" h4 "-" h4 "-" h4 "-" h12; newrelic-license: | h36 "NR" "AL";
kaggle: KG|AT_ h32; modal: a|k- A22; cargo: ci|o A32; apify: ap|ify_api_ A36; buildkite: bk|ua_ h40; volcengine: AK|LT A44; jina: ji|na_ A60; swarm: SWM|TKN-1- a50;
voyage: p|a- W43; hubspot-private: pat-|na1- h8 "-" h4 "-" h4 "-" h4 "-" h12; brave: BS|A W28; vercel: vc|p_ A56; vercel-key: vc|k_ A56; llamaindex: ll|x- A48;
voiceflow: VF|.DM. h24 "." A16; neon: na|pi_ a64; render: rn|d_ A28; e2b: e2|b_ h40; daytona: dt|n_ h64; context7: ctx|7sk- h8 "-" h4 "-" h4 "-" h4 "-" h12;
wandb: | h40; wandb-upper: | H40; wandb-v1: wandb|_v1_ A40; azure-ad: abc|8Q~ W34; terraform: | a14 ".atl" "asv1." a65; md5-like: | h32; sha256-like: | h64
"""
NAMED = """
adafruit a32; algolia a32; asana h32; aws-secret B40; azure-account B86; beamer a44; bitbucket a64; bittrex a32; codecov a32; cohere A40; coinbase a64;
confluent a64; contentful W43; datadog a40; droneci a32; dropbox a15; etsy a24; fastly a32; finicity a20; finnhub a20; flickr a32; freshbooks a64; gitter a40;
hubspot h32; intercom a60; jfrog a73; kraken B80; kucoin h24; launchdarkly a40; linkedin a16; looker a24; mattermost a26; messagebird a25; netlify-old a40;
nytimes a32; okta W42; plaid-secret a30; privateai a32; rapidapi a50; sendbird h40; sumologic a64; travis a22; twitch a30; twitter a50; yandex A38; zendesk a40;
password l10; password-digits d12; session-token B200
"""
NAMES = (
    "api_key",
    "hub_token",
    "password",
    "AWS_SESSION_TOKEN",
    "clientSecret",
    "x-admin-token",
    "DB_PASS",
    "AccountKey",
    "passphrase",
)


def _made(pieces: str, seed: str) -> str:
    """A value of the given pieces that has a letter and a digit where its alphabet has both."""
    chance = random.Random(seed)
    value = ""
    for piece in pieces.split():
        value += piece.strip('"') if piece[0] == '"' else "".join(chance.choices(ALPHABETS[piece[0]], k=int(piece[1:])))
    return value


def _secrets() -> Iterator[tuple[str, str, bool]]:
    for line in SHAPED.replace("\n", " ").split(";"):
        name, _, form = line.strip().partition(": ")
        beginning, _, pieces = form.partition(" ")
        yield name, beginning.replace("|", "") + _made(pieces, name), True
    for line in NAMED.replace("\n", " ").split(";"):
        name, _, pieces = line.strip().partition(" ")
        yield name, _made(pieces, name), False


SECRETS = list(_secrets())


def _places(name: str, value: str) -> Iterator[str]:
    """Argument list, assignment, address, header, config, diff."""
    upper, python, encoded = name.upper().replace("-", "_"), name.replace("-", "_"), quote(value, safe="")
    yield f"['python', 'train.py', '--{name}', '{value}', '--lr', '1']"
    yield f"python train.py --{name}={value} --lr 1e-4"
    yield f"python train.py \\\n  --{name} \\\n  {value} \\\n  --lr 1"
    yield f'export {upper}="{value}"'
    yield f"{upper}={value} python train.py"
    yield f'os.environ["{upper}"] = "{value}"'
    yield f"login({python}='{value}', timeout=3)"
    yield f"GET https://host/a?x=1&{name}={encoded}&y=2"
    yield f"git clone HTTPS://me:{encoded}@host/x.git"
    yield f"redis://:{encoded}@host:6379/0"
    yield f"https://{encoded}@host/x.git"
    yield f"curl -H 'Authorization: Bearer {value}' https://host"
    yield f"X-Api-Key: {value}"
    yield f"Cookie: session={value}; theme=dark"
    yield f"{name}: {value}"
    yield f"{name}: |\n  {value}\n"
    yield f'{{"{name}": "{value}", "lr": 1}}'
    yield f'"{{\\"{name}\\": \\"{value}\\"}}"'
    yield f"- name: {upper}\n  value: {value}\n"
    yield f"<{name}>{value}</{name}>"
    yield f"machine host login me password {value}"
    yield f'@@ -1 +1 @@\n-{upper}={value}\n+  "{name}": "{value}",\n'
    yield f"sshpass -p '{value}' ssh host; mysql -p{value} db; docker login -u me -p {value} host"


def _leaks(value: str, shown: str, given: str) -> bool:
    """Whether seven characters of a secret, as it is or encoded for an address, are shown that do not stand elsewhere too."""
    elsewhere = given
    for form in (value, quote(value, safe="")):
        elsewhere = elsewhere.replace(form, " ")
    pieces = (form[at : at + 7] for form in (value, quote(value, safe="")) for at in range(len(form) - 6))
    return any(piece in shown and piece not in elsewhere for piece in pieces)


def test_there_are_more_than_a_hundred_kinds() -> None:
    assert len({name for name, _, _ in SECRETS}) == len(SECRETS) > 140


@pytest.mark.parametrize(("kind", "value", "shaped"), SECRETS, ids=[kind for kind, _, _ in SECRETS])
def test_no_secret_gets_through_in_any_place(kind: str, value: str, shaped: bool) -> None:  # noqa: FBT001 - of the table
    own = kind.partition("-")[0]
    for name in (*NAMES, *((f"{own}_api_token", f"{own}Token") if not shaped and own != "password" else ())):
        for given in _places(name, value):
            shown = clean(given)
            assert not _leaks(value, shown, given), (given, shown)
            assert clean(shown) == shown, "hidden twice"
        for data in (
            ["python", f"--{name}", value],
            {name: value},
            {"name": name, "value": value},
            [{name: [value, value]}],
        ):
            assert not _leaks(value, str(clean_all(data)), name), data
    for given in (f"401 for {value}", f"'{value}',", f"x: {value}\n", f"https://host/{value}") if shaped else ():
        assert not _leaks(value, clean(given), given), (given, clean(given))


@pytest.mark.parametrize(("kind", "value", "shaped"), SECRETS, ids=[kind for kind, _, _ in SECRETS])
def test_what_is_left_of_a_secret_after_a_cut_is_hidden(kind: str, value: str, shaped: bool) -> None:  # noqa: FBT001 - of the table
    assert kind
    cuts = range(8, len(value), 5)
    for given in [f"password={value[:cut]}" for cut in cuts] + [f"'--api_key', '{value[:cut]}" for cut in cuts]:
        assert not _leaks(value, clean(given), ""), given
    for cut in (20, len(value) // 2) if shaped else ():
        given = f"cannot log in: token={value[:cut]} \u2026 {value[cut:]} ended"
        assert not _leaks(value[:cut], clean(given), ""), given


KEY = [
    "-----BEGIN RSA PRIVATE " + "KEY-----",
    *(_made("B64", f"line {number}") for number in range(8)),
    _made("B30", "last") + "==",
]
KEY.append(KEY[0].replace("BEGIN", "END"))


@pytest.mark.parametrize("kept", [slice(None), slice(1, None), slice(5), slice(3, 6), slice(4, None)])
@pytest.mark.parametrize("before", ["", "+", "    ", "[rank0]: ", "2026-01-01 12:00:00 INFO "])
def test_a_private_key_is_hidden_whole_cut_or_line_by_line(kept: slice, before: str) -> None:
    lines = [before + line for line in KEY[kept]]
    evidence = tuple(Evidence("log", line, f"a.log:{number}") for number, line in enumerate(lines))
    texts = [clean("\n".join(lines)), *(item.quote for item in clean_all(evidence)), clean("\\n".join(KEY[kept]))]
    for body in KEY[1:-2]:
        assert not any(body[:20] in text or body[-20:] in text for text in texts)


HERE = Path(__file__).parent
RANDOM, WEAK = "Zq7Rw2" + "Tk9Lm4Xc8VbN3", "hunter2" + "Blue"
OTHER_SECRETS = {
    "{a}": "AK" + "IA" + _made("U16", "key id"),
    "{h}": _made("h40", "hexadecimal"),
    "{b}": _made("B30", "basic") + "==",
}


def _secret_places() -> Iterator[tuple[str, str]]:
    """Texts with a secret in them, and the secret."""
    values: tuple[str, ...] = ()
    for line in (HERE / "secret_places.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            values = (RANDOM,) if values else (RANDOM, WEAK)
            continue
        for other, secret in OTHER_SECRETS.items():
            line = line.replace(other, secret)  # noqa: PLW2901 - the same line, filled in
        for value in values:
            yield line.replace("{s}", value).replace("\u23ce", "\n"), value


PLACES = list(_secret_places())


@pytest.mark.parametrize("mark", ["", "+", "-", " "], ids=["text", "added", "removed", "context"])
def test_no_secret_gets_through_in_a_file_or_its_difference(mark: str) -> None:
    assert len(PLACES) > 800
    leaking = []
    for given, value in PLACES:
        shown = clean(marked := mark + given.replace("\n", f"\n{mark}"))
        if any(secret in shown for secret in (value, *OTHER_SECRETS.values())) or clean(shown) != shown:
            leaking.append((marked, shown))
    assert leaking == []


@pytest.mark.parametrize("before", ["", "[rank0]: "])
def test_a_name_in_a_line_above_the_quoted_one_counts(tmp_path: Path, before: str) -> None:
    log = tmp_path / "x.log"
    for given, value in PLACES:
        if "\n" in given and value == RANDOM:
            log.write_text("".join(f"{before}{line}\n" for line in ("step 1 loss 2", *given.split("\n"))), encoding="utf-8")
            assert value not in json_text(as_data(why([str(log)], look_around=False))), given


def test_a_name_above_a_quoted_line_of_a_script_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--password')\np.parse_args()\n"
    )
    Path("train.sh").write_text(f"python train.py --password \\\n  {RANDOM} \\ \n  --lr 1 \\  # rate\n  --x 1\n")
    told = json_text(as_data(check(["train.sh"])))
    assert '"quote": "  [hidden] ' in told
    assert RANDOM not in told


def test_an_added_value_is_hidden_where_its_name_stands_above_removed_lines() -> None:
    given = f"--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n password:\n-  {RANDOM[::-1]}\n+  {RANDOM}\n lr: 1\n-x: 1\n+x: 2\n"
    shown = "--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n password:\n-  [hidden]\n+  [hidden]\n lr: 1\n-x: 1\n+x: 2\n"
    assert clean(given) == shown


SETTINGS = (HERE / "ordinary_settings.txt").read_text(encoding="utf-8").splitlines()
NOTATIONS = (
    "{name}={value}", "--{name}={value}", "--{name} {value}", "{name}: {value}", "'{name}': '{value}'", '"{name}": "{value}",', "{name} = {value}",
    "export {name}={value}", "Namespace({name}='{value}')", "  {name} ....... {value}", "| {name} | {value} |", "{name}:\n  {value}", "{name}:\n- {value}",
    "- name: {name}\n  value: {value}", "add_argument('--{name}', default='{value}')", "? {name}\n: {value}", "{name} is: {value}", "{name}: ['{value}']",
)  # fmt: skip


def test_no_ordinary_setting_is_hidden_in_any_notation() -> None:
    assert len(SETTINGS) > 400
    texts = [mark + line for line in SETTINGS for mark in ("", "+", "-", "  ")]
    for line in SETTINGS:
        name, sign, value = line.partition("=")
        if sign and name.isidentifier():
            texts += [notation.format(name=name, value=value.strip("'\"")) for notation in NOTATIONS]
    assert [(text, clean(text)) for text in texts if clean(text) != text] == []


OTHERS = """
http://proxy:p@ss:w0rd@host:3128 | p@ss | w0rd
ftp://me:Zq9/Wn4k@host/x | Wn4k
postgres://me:a%40b%2Fc@host/db | a%40b
MONGODB+SRV://ME:S3CRETPW@HOST/ | S3CRETPW
git remote add o https://oauth2:Zq9Wn4kLm2@git.host/x | Zq9Wn4kLm2
http_proxy=me:Zq9Wn4kLm2@proxy.host.org:3128 | Zq9Wn4kLm2
https://me:Zq9Wn4kL | Zq9Wn4kL
https://b.s3.amazonaws.com/x?X-Amz-Credential=AQIDZq9Wn4%2F2026%2Fus&X-Amz-Signature=fe5f80f77d5fa3be | AQIDZq9Wn4 | fe5f80f77d5fa3be
https://a.blob.core.windows.net/x?sv=2021&sig=Zq9Wn4kLm2Xv7Tb%3D&se=2026 | Zq9Wn4kLm2
https://storage.googleapis.com/x?X-Goog-Signature=0a1b2c3d4e5f60718293 | 0a1b2c3d4e5f
https://cdn/x?Expires=1&Signature=Zq9Wn4kLm2Xv7Tb~&Key-Pair-Id=K1 | Zq9Wn4kLm2
DefaultEndpointsProtocol=https;AccountName=x;AccountKey=Zq9Wn4kLm2Xv7Tb==;EndpointSuffix=y | Zq9Wn4kLm2
Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=Zq9Wn4kLm2Xv7Tb= | Zq9Wn4kLm2
Server=x;User Id=sa;Password=hunter2;Database=y | hunter2
curl -u me:hunter2 https://host | hunter2
curl --user=me:hunter2 https://host | hunter2
['curl', '-u', 'me:hunter2', 'https://host'] | hunter2
sshpass -phunter2 ssh host | hunter2
mysql -uroot -phunter2 db | hunter2
redis-cli -a hunter2 ping | hunter2
wandb login --relogin --host https://w.org Zq9Wn4kLm2Xv7 | Zq9Wn4kLm2
huggingface-cli login --token hunter2 | hunter2
aws configure set aws_secret_access_key Zq9Wn4kLm2Xv7Tb | Zq9Wn4kLm2
password = correct horse | correct
passphrase: correct horse battery staple | horse | staple
PASS=hunter2 | hunter2
os.environ.get('API_KEY', 'letmein') | letmein
[('password', 'letmein')] | letmein
user=me, password=my_secret_word, host=x | my_secret
password: pa(ss)word1 | (ss)
PWD=hunter2 | hunter2
if ("hunter2" == password) | hunter2
std::string secret("hunter2"); | hunter2
Set-Cookie: sid=hunter2; Path=/ | hunter2
Proxy-Authorization: Basic aHVudGVyMg== | aHVudGVyMg
{'Authorization': 'Bearer hunter2'} | hunter2
Wandb API key: Zq9Wn4kLm2Xv7Tb | Zq9Wn4kLm2
the token is Zq9Wn4kLm2Xv7TbQ2 | Zq9Wn4kLm2
//registry.npmjs.org/:_authToken=Zq9Wn4kLm2Xv7 | Zq9Wn4kLm2
password: "m{{h}o)p${e]nob(ody[finds>-_$#thisone}}" | nob(ody | thisone
hunter2_secret: "a \\" b hunter2" | hunter2"
api_key: \x1b[31mZq9Wn4\x1b[0mkLm2Xv7Tb | kLm2Xv7 | Zq9Wn4
g\u200bhp_aB3dE5gH7jK9mN1pQ3s\u200bT5vW7yZ | aB3dE5g | 7yZ
"""


@pytest.mark.parametrize("line", OTHERS.strip().split("\n"))
def test_other_places_of_secrets(line: str) -> None:
    given, *parts = line.split(" | ")
    shown = clean(given)
    assert HIDDEN in shown
    assert not any(part in shown for part in parts), shown


def test_the_items_of_lists_and_the_fields_of_records_are_read_together() -> None:
    assert clean_all(["--api_key", "hunter2", "--lr", "1"]) == ["--api_key", HIDDEN, "--lr", "1"]
    assert (
        clean_all((Evidence("log", "run with --password", "a:1"), Evidence("log", "hunter2 now", "a:2")))[1].quote
        == f"{HIDDEN} now"
    )
    assert clean_all(Fact("flag.api_key", "hunter2", Evidence("command", "x", "y"), spelling="--api_key")).value == HIDDEN
    assert clean_all({"password": 12345678, "lr": 12345678, "names": {"password": "str of 7"}}) == {
        "password": HIDDEN, "lr": 12345678, "names": {"password": "str of 7"},
    }  # fmt: skip
    assert clean_all(["a\nb", "c"]) == ["a\nb", "c"]


ORDINARY = """
step 100 tokens: 4096 loss 0.3 | max_tokens=2048 num_tokens: 12345678 | pad_token: <pad>, eos_token='</s>', bos_token_id=1
Loading revision 0123456789abcdef0123456789abcdef01234567 | commit 0123456789abcdef0123456789abcdef01234567 (HEAD)
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB | tokenizer_name=google/t5-v1_1-xxl | --token_count 5 --max-tokens 4096
12345 tokens/s, 3.2k tokens/sec/gpu | key=value | KeyError: 'model.key_proj.weight' | Missing key(s) in state_dict: "layers.0.attn.key.weight"
primary_key=id | keyframe: 3 | sorted(x, key=len) | sort_key=len | PWD=/home/x OLDPWD=/home | password_file=/run/secrets/x | use_auth_token=True
token: null | --hub_token ${HF_TOKEN} | api_key: $WANDB_API_KEY | api_key=<your key> | password: *** | WANDB_API_KEY=xxxx | token=None, lr=1
GPU-8a1b2c3d-1234-5678-9abc-def012345678 | run 3fa85f64-5717-4562-b3fc-2c963f66afa6 | wandb: run at https://wandb.ai/me/p/runs/3k5j2h1g
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 | e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  data.tar
models--a/snapshots/0123456789abcdef0123456789abcdef01234567/config.json | etag "d41d8cd98f00b204e9800998ecf8427e"
https://gist.github.com/me/0123456789abcdef0123456789abcdef | torch.Size([8, 4096, 128]) | File "/a/token.py", line 3, in get_token
def f(self, token: str | None = None, password: Optional[str] = None) -> None: | token = tokenizer.decode(ids) | password = getpass.getpass('Password: ')
self.password = password | headers = {"Authorization": f"Bearer {token}"} | {"token": token, "key": key} | return self._key.device != device
Invalid token: unexpected | passwd: command not found | Password: | docker run -p 8080:80 image | curl -s https://host/x | git@github.com:me/repo.git
ssh://git@github.com/me/x | tcp://10.0.0.1:29500 | file:///tmp/a@b/c | http://localhost:8080/x@v1 | image:tag@sha256:abc | me@example.org | first_pass=2
attention key: torch.float16 | cache key: 0123456789abcdef0123456789abcdef | hf_model_name=AutoModelForCausalLM | sk-learn==1.0 | pat.compile
input_key: observation.images.top | lr_scheduler=cosine secret=False | credentials: null | cookie=None | author: me | 0b1011 0x7f3c00000000
"""


@pytest.mark.parametrize("given", [one for line in ORDINARY.strip().split("\n") for one in line.split(" | ")])
def test_ordinary_text_stays_as_it_is(given: str) -> None:
    assert clean(given) == given
    assert clean_all([given, given]) == [given, given]


@pytest.mark.parametrize("folder", ["tests/cases", "tests/healthy", "tests/plans", "docs", "README.md"])
def test_our_own_incidents_and_logs_hold_no_secret(folder: str) -> None:
    path = ROOT / folder
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            lines = plain(file.read_text(errors="replace")).split("\n")
            assert [line for line in lines if clean(line) != line] == [], file


@pytest.mark.parametrize(
    "name",
    ["argparse", "tokenize", "ast", "logging/__init__", "pickle", "ssl", "shelve", "unittest/mock", "turtle", "keyword"],
)
def test_the_source_of_the_standard_library_holds_no_secret(name: str) -> None:
    text = plain((Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py").read_text(errors="replace"))
    assert [line for line in text.split("\n") if clean(line) != line] == []
    assert ast.dump(ast.parse(clean(text))) == ast.dump(ast.parse(text))


LONG = 200_000
ONE_CLASS = (
    "a",
    "0123456789abcdef",
    "0123456789ABCDEF",
    " ",
    "_",
    ".",
    "=",
    "-",
    "'",
    '"',
    ":",
    "@",
    "/",
    "aB1",
    "\n",
    "\x1b[",
    "\x1b]",
    "\u2026",
)
REPEATED = (
    "a=", "a://", "a://b:", "://", "-a ", "-- ", "--key ", "token ", "token=", 'token="', "'token', ", "password: ", "password:\n", "eyJaaaaaaaa.", "a:b@",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----BEGIN ", "sk-", "hf_", "curl -u a:b ", "secret-", "key_", "<password>", "Cookie: a=b; ",
    "0123456789abcdef0123456789abcdef01234567 ", "authorization ", "https://a.b/c?sig=x&", "\\\\", '\\"', "token=(", "{{", "passwd, ", "-p ", "login ",
)  # fmt: skip


@pytest.mark.parametrize("unit", [*ONE_CLASS, *REPEATED])
def test_no_line_takes_long(unit: str) -> None:
    text = unit * (LONG // len(unit))
    begun = time.process_time()
    clean(text)
    assert time.process_time() - begun < 1.5


TRICKS = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\u202e\u200b\x9b1m\x08\r\x00\u2066 \ud800 \ufeff\U000e0041end"


def test_nothing_that_a_terminal_obeys_or_hides_is_left() -> None:
    assert plain(TRICKS) == clean(TRICKS) == "red \ufffd end"
    assert plain("tab\there\nüé漢🙂") == "tab\there\nüé漢🙂"
    assert one_line("a\nb\x1b[1m") == "a\\nb"
    assert plain("\x1b]never ended\nnext") == "never ended\nnext"


def _odd_log(folder: Path) -> str:
    name = os.path.join(folder, os.fsdecode(b"\xff\x1b[31mred\xe2\x80\xae\nname.log"))
    with open(name, "w", encoding="utf-8") as file:
        file.write(
            'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    g()\nValueError: \x1b[31mpassword=hunter2\n'
        )
    return name


def test_no_path_and_no_argument_tricks_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, page = _odd_log(tmp_path), tmp_path / "page.html"
    secret = "gh" + "p_" + _made("A36", "argument")
    calls = [
        ["why", log], ["why", log, "--json"], ["why", log, "--html", str(page)], ["check", log], ["check", log, "--json", "--show-job"],
        ["why", f"{log}.none"], ["why", f"\x1b[31m{secret}"], ["why", f"--none={secret}\x1b[31m"], ["why", "--exit-code", f"{secret}\x1b[31m\u202e"],
        [f"{secret}\x1b[31m"], ["explain", f"{secret}\x1b[31m"], ["check", "--", "python", f"{secret}\x1b[31m.py", "--api_key", "hunter2"],
        ["run", "--grace", f"{secret}\x1b[31m"], ["doctor", f"{log}.none"], ["why", log, "--command", f"python t.py --api_key hunter2 {secret}"],
    ]  # fmt: skip
    for call in calls:
        with contextlib.suppress(SystemExit):  # argparse
            main(call)
        shown = capsys.readouterr()
        for text in (shown.out, shown.err):
            assert text == plain(text), call
            assert "hunter2" not in text and secret[4:12] not in text, (call, text)  # noqa: PT018 - one promise
            assert "\nname.log" not in text, call
        if "--json" in call and shown.out:
            json.loads(shown.out)
    assert "hunter2" not in page.read_text(encoding="utf-8")


def test_on_a_terminal_only_our_own_colours_are_escape_sequences(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "crashcart", "why", _odd_log(tmp_path)]
    subprocess.run(command, stdout=terminal, stderr=terminal, env=environment, timeout=60, check=True)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # until the other end is closed
        while piece := os.read(screen, 65536):
            shown += piece
    os.close(screen)
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[1;31m" in text
    without = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert without == plain(without)
    assert "\x1b[31mred" not in text


def test_a_fix_hides_the_secrets_around_it_and_leaves_them_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "\x1b[31m\u202ejob"
    folder.mkdir()
    script = folder / "train.sh"
    script.write_text("export API_KEY=hunter2\npython train.py --lr 1e-4 \\ \n  --api_key hunter2\n")
    (folder / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.add_argument('--api_key')\np.parse_args()\n"
    )
    main(["check", "--fix", str(script)])
    shown = capsys.readouterr()
    assert "wrote" in shown.err
    assert "+python train.py" in shown.err
    assert "hunter2" not in shown.err + shown.out
    assert shown.err == plain(shown.err)
    assert script.read_text() == "export API_KEY=hunter2\npython train.py --lr 1e-4 \\\n  --api_key hunter2\n"


def test_the_record_of_a_command_holds_no_secret_not_even_half_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "gh" + "p_" + _made("A36", "command")
    monkeypatch.setenv("NCCL_PROXY", "http://me:hunter2@host")
    command = ["python", "t.py", "--api_key", "hunter2", "x" * 4080 + "," + secret, "--note", "y" * 12000, secret]
    told = json.dumps(describe(command, dict(os.environ)))
    assert "hunter2" not in told
    assert not any(secret[at : at + 7] in told for at in range(4, len(secret) - 6))


def test_a_closed_output_is_no_error() -> None:
    command = f"{sys.executable} -m crashcart runs >&- 2>&-"
    assert subprocess.run(command, shell=True, timeout=60, check=False).returncode == 0  # noqa: S602 - a line of ours


@pytest.mark.parametrize(
    "use", ["float({})", "float({}.upper())", "open('/data/' + {}).read()", "torch.device({}) + 1", "int({}[1:])"]
)
@pytest.mark.parametrize("way", ["default", "flag", "config", "reference"])
def test_a_secret_that_the_program_uses_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], use: str, way: str
) -> None:
    secret, name = "mef2mSJ5CMTIeg1ZTVnVv2fgKD0f6YYI", "aws_secret_access_key"
    written = secret if way == "default" else "none"
    from_config = "lr" if way == "reference" else name
    value = f"options.{name}" if way in {"default", "flag"} else f"config.{from_config}"
    (tmp_path / "config.yaml").write_text(f"{name}: {secret}\nlr: ${{{name}}}\n")
    (tmp_path / "train.py").write_text(
        "import argparse, torch\nfrom omegaconf import OmegaConf\nparser = argparse.ArgumentParser()\n"
        f"parser.add_argument('--{name}', default='{written}')\noptions = parser.parse_args()\nconfig = OmegaConf.load('config.yaml')\nx = {use.format(value)}\n"
        f"optimizer = torch.optim.SGD(model.parameters(), lr={value})\nloss.backward()\noptimizer.step()\n"
    )
    monkeypatch.chdir(tmp_path)
    words = [f"--{name}", secret] if way == "flag" else []
    for shown in (["--notes", "--show-job"], ["--json", "--show-job"]):
        main(["check", *shown, "--", "python", "train.py", *words])
        told = "".join(capsys.readouterr())
        assert way in {"config", "reference"} or "config/" in told
        for part in (secret, secret.upper(), secret[1:]):
            assert part not in told


def test_a_name_of_thousands_of_parts_is_judged_by_its_end() -> None:
    assert names_secret("a." * 5000 + "api_key")
    assert not names_secret("a." * 5000 + "batch_size")
    assert stands_for_secret("a." * 5000 + "password", "hunter2")
