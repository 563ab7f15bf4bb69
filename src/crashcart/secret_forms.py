"""What secrets look like: the shapes of tokens by provider, the words that name a secret, the commands that take one.

Plain data for ``redact``. Prefixes, alphabets and lengths of tokens, and the words of names, are facts taken from the rules and
tests of gitleaks (MIT, github.com/gitleaks/gitleaks) and detect-secrets (Apache-2.0, github.com/Yelp/detect-secrets); what those do
not have (wandb, NVIDIA, Groq and others of the trade) comes from the providers' own descriptions. Lengths here are lower than the
real ones, so that a token that was cut off is still known.
"""

from __future__ import annotations

__all__ = [
    "BODIES",
    "COMMANDS",
    "HARMLESS_BEFORE_KEY",
    "HARMLESS_BEFORE_PASS",
    "HARMLESS_BEFORE_TOKEN",
    "LOGIN_CALLS",
    "NOT_A_VALUE",
    "NOT_BEFORE_KEY",
    "OWNERS",
    "PLACES",
    "SECRET_CALLS",
    "SECRET_PARTS",
    "SHAPES",
    "SHOWN_MEMBERS",
    "UNANCHORED",
    "words",
]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Letters that stand for an alphabet in SHAPES.
BODIES = {
    "A": "[A-Za-z0-9]",
    "H": "[0-9A-Fa-f]",
    "U": "[A-Z0-9]",
    "W": "[A-Za-z0-9_-]",
    "D": "[A-Za-z0-9_.=-]",
    "B": "[A-Za-z0-9+/=]",
    "P": "[A-Za-z0-9_/+=.:@%-]",
}
# provider, how its tokens begin, alphabet and least length of what follows. "!" marks a beginning that ordinary words share: what
# follows must look random then.
SHAPES = """
1password A3- U6-W5
1password ops_eyJ B20
adafruit aio_ A20
adobe p8e- A16
aiven AVNS_ W16
age AGE-SECRET-KEY-1 U16
airtable !pat A14.H16
alibaba LTAI A12
anthropic sk-ant- W16
anyscale esecret_ A12
apify apify_api_ A16
artifactory AKCp A16
artifactory cmVmd A24
atlassian ATATT3 D24
atlassian ATCTT3 D24
atlassian ATBB A16
authress !sc_ A5.A4.accP16
authress !ext_ A5.A4.accP16
authress !scauth_ A5.A4.accP16
authress !authress_ A5.A4.accP16
aws AKIA U12
aws ASIA U12
aws ABIA U12
aws ACCA U12
aws !A3T U16
aws ABSK B30
aws bedrock-api-key- B16
aws amzn.mws. H8W4
baidu bce-v3/ALTAK- P16
beamer !b_ D40
brave !BSA W24
browserbase bb_live_ W16
brevo xkeysib- W16
brevo xsmtpsib- W16
buildkite bkua_ A16
cargo !cio A28
cerebras csk- A16
circleci CCIPAT_ W20
circleci CCIPRJ_ W20
cloudflare !v1.0- H24-H24
clickhouse !4b1d A38
clojars CLOJARS_ A20
contentful CFPAT- W20
context7 ctx7sk- W20
databricks dapi H16
databricks !dkea H16
daytona !dtn_ A32
datadog !ddapp_ A16
definednetworking dnkey- D20
digitalocean doo_v1_ H16
digitalocean dop_v1_ H16
digitalocean dor_v1_ H16
docker dckr_pat_ W16
docker dckr_oat_ W16
docker SWMTKN-1- W24
doppler dp.pt. A16
doppler dp.st. D16
doppler dp.ct. A16
doppler dp.sa. A16
doppler dp.scim. A16
doppler dp.audit. A16
dropbox sl.u. W40
dropbox !sl. D60
duffel duffel_test_ D16
duffel duffel_live_ D16
dynatrace dt0c01. D16
dynatrace dt0s01. D16
dynatrace dt0s16. D16
easypost EZAK A20
easypost EZTK A20
e2b !e2b_ H24
elevenlabs !sk_ H32
facebook EAAM A40
facebook EAAC A40
facebook EAAG A40
figma figd_ W20
firecrawl !fc- H24
fireworks !fw_ A20
flutterwave FLWSECK D12
flutterwave FLWPUBK D12
flyio fo1_ W20
flyio fm1a_ B40
flyio fm1r_ B40
flyio fm2_ B40
frameio fio-u- D24
google AIza W20
google GOCSPX- W12
google ya29. W16
google !1// W30
github ghp_ A16
github gho_ A16
github ghu_ A16
github ghs_ A16
github ghr_ A16
github github_pat_ W16
gitlab glpat- D12
gitlab gldt- D12
gitlab glft- D12
gitlab glsoat- D12
gitlab glcbt- D12
gitlab glffct- D12
gitlab glimt- D12
gitlab glagent- D20
gitlab gloas- D20
gitlab glptt- D12
gitlab glrt- D12
gitlab glrtr- D12
gitlab GR1348941 W12
gocardless !live_ D40
gocardless !sandbox_ D40
grafana eyJrIjoi B30
grafana glc_ B24
grafana glsa_ W16
groq gsk_ A20
harness pat. W20.A20.A16
harness sat. W20.A20.A16
heroku HRKU- W20
honeycomb hcaik_ A20
honeycomb hcbik_ A20
honeycomb hcamk_ A20
hubspot !pat-na1- H8-W12
hubspot !pat-eu1- H8-W12
hubspot !pat-ap1- H8-W12
huggingface !hf_ A12
huggingface api_org_ A16
infracost !ico- A24
intra42 s-s4t2ud- H24
intra42 s-s4t2af- H24
jina jina_ A24
jwt eyJ W8.D4
jwt ZXlK B40
kaggle KGAT_ H16
lambdalabs !secret_ A20
langsmith lsv2_ A10
launchdarkly !api- H8-W4
launchdarkly !sdk- H8-W4
launchdarkly !mob- H8-W4
linear lin_api_ A16
linear lin_oauth_ A16
llamaindex llx- A20
lob live_pub_ H20
lob test_pub_ H20
lob !test_ H30
mailgun !key- H24
mailgun !pubkey- H24
mapbox !pk. A40.A12
mapbox !sk. A40.A12
modal !ak- A20
modal !as- A20
netlify nfp_ A16
neptune !neptune_ A24
neon !napi_ A32
newrelic NRAK- A12
newrelic NRJS- H12
newrelic NRII- W12
newrelic NRRA- H12
ngrok !cr_ A24
notion ntn_ A20
npm npm_ A20
nuget !oy2 A38
nvidia nvapi- W16
octopus !API- U20
okta !00 W40
openai sk-proj- W16
openai sk-svcacct- W16
openai sk-admin- W16
openai !sk- W16
openrouter sk-or- W16
openshift sha256~ W20
paypal access_token$production$ A10
perplexity pplx- A16
pinecone pcsk_ W20
plaid access-sandbox- W12
plaid access-development- W12
plaid access-production- W12
planetscale pscale_tkn_ D16
planetscale pscale_oauth_ D16
planetscale pscale_pw_ D16
posthog phx_ A20
postman PMAK- W16
prefect pnu_ A16
prefect pnb_ A16
pulumi !pul- H20
pypi pypi-AgE W20
pypi !pypi- W40
readme !rdme_ A24
render !rnd_ A24
resend !re_ A8_A16
replicate !r8_ A20
rubygems rubygems_ H16
runpod rpa_ U20
scalingo !tk-us- W20
sendgrid !SG. D40
sentry sntrys_ P20
sentry sntryu_ H20
settlemint sm_aat_ A12
settlemint sm_pat_ A12
settlemint sm_sat_ A12
shippo shippo_live_ H16
shippo shippo_test_ H16
shopify shpat_ H16
shopify shpca_ H16
shopify shppa_ H16
shopify shpss_ H16
slack xapp- W10
slack xoxa- W10
slack xoxb- W10
slack xoxc- W10
slack xoxd- P10
slack xoxe D10
slack xoxo- W10
slack xoxp- W10
slack xoxr- W10
slack xoxs- W10
sonar squ_ A16
sonar sqp_ A16
sonar sqa_ A16
sourcegraph sgp_ W20
square EAAA W20
square sq0atp- W12
square sq0csp- W12
square sq0idp- W12
stripe sk_live_ A10
stripe sk_test_ A10
stripe sk_prod_ A10
stripe rk_live_ A10
stripe rk_test_ A10
stripe rk_prod_ A10
stripe whsec_ B16
supabase sbp_ H20
supabase sb_secret_ W16
tailscale tskey- W16
tavily tvly- W16
tencent AKID A20
together !tgp_v1_ W20
twilio !SK H32
twilio !AC H32
typeform tfp_ D24
vault hvs. W20
vault hvb. W20
vault hvr. W20
vault !s. A24
vercel !vcp_ A20
vercel !vci_ A20
vercel !vca_ A20
vercel !vcr_ A20
vercel !vck_ A20
voiceflow VF.DM. H20.A12
voiceflow VF.WS. H20.A12
volcengine AKLT A24
voyage !pa- W40
wandb wandb_v1_ W16
xai xai- A20
yandex !t1. W20.W40
yandex AQVN W24
yandex !YC W38
slack hooks.slack.com/ P16
discord discord.com/api/webhooks/ P16
discord discordapp.com/api/webhooks/ P16
teams webhook.office.com/ P16
teams outlook.office.com/webhook/ P16
zapier hooks.zapier.com/hooks/ P10
ifttt maker.ifttt.com/trigger/ P16
lark open.feishu.cn/open-apis/bot/ P16
lark open.larksuite.com/open-apis/bot/ P16
mattermost /hooks/ A26
softlayer api.softlayer.com/soap/ P24
telegram api.telegram.org/bot P20
"""
# Shapes that are known by what stands within them: a text without which they cannot be there, and the expression.
UNANCHORED = (
    ("Q~", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{16,40}"),  # Azure
    (".atlasv1.", r"[A-Za-z0-9]{6,20}\.atlasv1\.[A-Za-z0-9_=-]{16,}"),  # Terraform
    ("_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),  # MaxMind
    ("NRAL", r"(?<![A-Za-z0-9])[0-9a-f]{30,40}NRAL(?![A-Za-z0-9])"),  # New Relic
    ("-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])"),  # Mailchimp
    (":AA", r"(?<![0-9])[0-9]{5,16}:AA[A-Za-z0-9_-]{24,}"),  # Telegram
    (":A", r"(?<![0-9])[0-9]{8,10}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])"),
    (".", r"[MNO](?<![A-Za-z0-9_-].)[A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),  # Discord
    ("|", r"\|(?<=[0-9]{15}\|)[A-Za-z0-9_-]{24,40}"),  # Facebook
    ("AAAAAAAAAA", r"[A-Za-z0-9]{11}AAAAAAAAAA[A-Za-z0-9_=-]{30,}"),  # Dropbox
    ("AAAAAAAAAAAAAAAAAAAAAA", r"A{22}[A-Za-z0-9%]{60,}"),  # Twitter
    ("_gitlab_session", r"_gitlab_session=[0-9a-z]{16,}"),
)
# A name that has one of these in it names a secret.
SECRET_PARTS = (
    "password", "passwd", "passwort", "kennwort", "contrase", "passphrase", "passcode", "pass-phrase", "secret", "credential", "apikey", "authtoken",
    "accesstoken", "accesskey", "privatekey", "accountkey", "authkey", "signingkey", "encryptionkey", "masterkey", "connectionstring", "connstr",
    "authorization", "mnemonic", "webhook", "cookie", "jwt", "bearer", "sshpass", "sessid", "sessionid", "recoverycode", "backupcode", "pincode",
    "seedphrase", "motdepasse", "senha", "parola", "hasło", "парол", "密码", "密碼", "口令", "비밀번호", "パスワード",
)  # fmt: skip
# Whose or what for: before "key", "token" or "pass" these make a secret. Providers of SHAPES count too.
OWNERS = words(
    "api access account admin agent app application auth aws azure basic bot ci client cloud cluster comet consumer csrf customer database db "
    "deploy deployment dev device docker email encrypt encryption facebook fernet ftp gcp gh git gitea gl hf hmac http hub identity influx influxdb ingest "
    "integration jenkins jfrog job kaggle keystore kraken kubernetes kube ldap license login mail mailchimp master mlflow modal mongo mongodb mysql "
    "newrelic ngc nvidia oauth oauth2 okta personal pg plaid postgres postgresql priv private prod proxy publish push rabbitmq ray redis refresh registry "
    "id mfa wallet root salesforce sas secret security server service session shared shopify sign signing slack smtp snowflake snyk sonar splunk sql ssh ssl storage "
    "subscription sudo telegram ticket travis truststore twilio twitch twitter upload user username vault verification webhook wifi wireless "
    "adafruit adobe airtable algolia alibaba asana beamer bitbucket bittrex meraki cloudflare codecov coinbase confluent contentful "
    "databricks datadog droneci dropbox etsy fastly finicity finnhub flickr freshbooks gitter grafana heroku hubspot intercom jfrog artifactory kucoin launchdarkly "
    "linkedin lob looker mailgun mapbox mattermost messagebird netlify nytimes rapidapi sendbird squarespace sumologic travisci typeform yandex privateai "
    "workspace xsrf zendesk clearml swanlab dask cohere mistral discord wandb huggingface gitlab github openai anthropic npm pypi sentry stripe"
)
# Of those, owners of keys that are no secrets: session_key, storage_key.
NOT_BEFORE_KEY = words(
    "id session user client server service device job agent cluster storage http workspace customer proxy push email mail identity integration ticket username "
    "registry git hub dev prod data ray redis sql mongo mongodb"
)
# The names of things that stand beside a secret and are none: a path, a count, a name.
NOT_A_VALUE = words(
    "file files filename path paths dir dirs directory folder name names id ids type types kind length len lens size sizes count counts counter num number "
    "numbers index indices idx limit limits policy expiry expires expiration expire ttl age timeout error errors err exception warning env envvar var variable "
    "variables field fields column columns prompt regex pattern format provider providers manager managers url urls uri endpoint host hosts callback fn func "
    "function class cls required require enabled disabled enable disable valid invalid validator validation missing hint help doc docs version rotation "
    "algorithm alg algo strength strategy mode scheme method methods usage budget rate per sec second seconds embedding embeddings embed proj projection weight "
    "weights bias mask masks dim dims shape shapes states state cache caches board frame frames word words map mapping maps point points press stroke list lists "
    "dict dicts set sets tuple ring rings order ordering func pair pairs iterator iter generator gen stream position positions pos offset start end begin "
    "padding ratio fraction usage logprobs logits prob probs entropy loss level levels detector scanner check checker test tests handler helper util utils "
    "module modules plugin plugins parser reader writer loader factory builder base64encoded vocab ized izer ize izing ization er ing ed "
    "source sources rule rules store stores storage service services server client alias status action event events view model config configs settings "
    "options option engine backend request response result results page form input button widget dialog label title text message messages msg "
    "required_error pem crt json yaml yml toml txt py sh scope scopes audience issuer permission permissions jar policies at dataset datasets corpus ref refs"
)
HARMLESS_BEFORE_TOKEN = words(
    "pad padding eos bos unk unknown mask masked cls sep special image images img text audio video vision visual start end stop first last next prev previous "
    "new old max min num n nb total per input output prompt train training each every single extra added additional blank decoder encoder query class register "
    "cur current other begin think thinking tool system assistant user_input bad good line op operator syntax lex string comment indent dedent exact decoded "
    "generated predicted target source src tgt sot eot eom eod bom im speech semantic acoustic word subword byte char language lang task time timestamp "
    "response completion context cached reasoning draft accepted rejected sampled top one two by of a the this that same any all no non multi "
    "expected unexpected illegal peek lookahead left right open close paren brace number name newline eof soft keyword identifier literal regexp html xml css json "
    "model memory summary attention learned virtual soft_prompt code is has to as with for from in on at and or not if keep skip drop swap replace merge split "
    "prefix suffix infix middle fim content document doc separator delimiter chunk patch frame modality latent global local sink position rare common frequent "
    "public cancel cancellation continuation page pagination scheduler interrupt stopping"
)
HARMLESS_BEFORE_KEY = words(
    "cache hash partition public pub primary foreign sort object blob store prng rng random graph trace metric row column dict map group join index query attention "
    "attn missing unexpected duplicate unknown invalid s3 bucket schema sequence natural hot idx idempotency compile fx guard shape state config kernel "
    "image text label input output batch dataset episode special feature column group data_ registry_ lookup search any each every first last next tune "
    "translation i18n unique composite compound surrogate arrow page down up left right event any shift"
)
HARMLESS_BEFORE_PASS = words(
    "forward backward first second third one two single multi num n per high low band all each every next last final compile optimization optimizer fusion graph "
    "inductor fx compiler lowering sub pre post render depth shadow eval train inference warmup dry test tests did not must should will to by"
)
# Keys of a map of credentials whose values are no secrets.
SHOWN_MEMBERS = words(
    "user users username login email account host port region profile database schema driver project org organization"
)
# Functions that take a secret as an argument without a name, and whether a word with a digit in it is one.
LOGIN_CALLS = words("login hfapi basicauth httpbasicauth httpdigestauth")
SECRET_CALLS = words("experiment session fernet openai anthropic groq cohere together replicate")
# Programs, the options of theirs that take a secret, and how: as the "next" word, "joined" to the option, as a "pair" of user and
# password, or as the first "word" or all "words" that can be one; after the word "login" or "set" only, where that is said first.
COMMANDS = (
    ("curl", "-u --user -U --proxy-user", "pair"),
    ("http https xh", "-a --auth", "pair"),
    ("smbclient lftp", "-U -u", "pair"),
    ("sshpass", "-p", "next joined"),
    ("mysql mysqldump mysqladmin mysqlimport mariadb", "-p", "joined"),
    ("7z 7za 7zr rar unrar", "-p", "joined"),
    ("docker podman nerdctl helm buildah skopeo oras az", "-p", "login next joined"),
    ("redis-cli valkey-cli", "-a", "next"),
    ("zip unzip sqlcmd bcp mosquitto_pub mosquitto_sub", "-P", "next joined"),
    ("mongo mongosh mongodump mongorestore twine", "-p", "next"),
    ("ldapsearch ldapadd ldapmodify", "-w", "next"),
    ("openssl", "-k -K -pass -passin -passout", "next"),
    ("wandb vault", "", "login word"),
    ("mc", "", "set words"),
)
# What is given to a program on its standard input, in a statement of SQL, in an address: a text without which it cannot be there, the
# expression, and whether the value must look random.
_TO_INPUT = r"[ \t]{1,4}(?:-\w{1,3}[ \t]{1,4}){0,2}(?:[\"']?%s(?:\\n)?[\"']?[ \t]{1,4})?[\"']?([^\s\"'|]{3,100})[\"']?[ \t]{0,4}\|[^|\n]{0,80}?(?:-stdin|--with-token|sudo -S)"
PLACES = (
    ("echo ", r"echo" + _TO_INPUT, False),
    ("printf ", r"printf" + _TO_INPUT, False),
    ("<<<", r"(?:-stdin|--with-token)[ \t]{1,4}<<<[ \t]{0,4}[\"']?([^\s\"']{3,100})", False),
    ("dentified", r"dentified by [\"']([^\"'\n]{3,100})", False),
    ("DENTIFIED", r"DENTIFIED BY [\"']([^\"'\n]{3,100})", False),
    ("requirepass", r"requirepass[ \t]{1,8}[\"']?([^\s\"']{3,100})", False),
    ("send ", r"assword:?[\"'][ \t]{0,4}[{;]?[ \t\n]{0,8}send[ \t]{1,4}[\"']([^\\\"'\n]{3,100})", False),
    ("code=", r"[?&]code=([^\s&\"'<>#]{8,200})", True),
    ("' (", r"'([^'\n]{3,100})' \((?:password|passwd|passphrase|token|secret|api[ _]key)\)", False),
    ("/hook", r"/hooks?/([\w/-]{8,200})", True),
    (
        " is the ",
        r"(?<![^\s#;/*])(?=\S{8})([^\s#;/*=\"']{0,60}\d[^\s=\"']{0,140}) is the (?:password|passwd|passphrase|(?:api|access) token|api[ _-]?key)(?=[.,;!)]|\s{0,4}\Z|\n| for )",
        False,
    ),
    ("huggingface", r"huggingface[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([A-Za-z0-9_-]{16,100})", True),
)
