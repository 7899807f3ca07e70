"""`email.send` against a real SMTP server on loopback."""

import ssl
from collections.abc import Iterator

import pytest
from mail_relay import Relay, listening
from receiver import TLS, running

from longshore.core import ids
from longshore.directives import Dead, Retry
from longshore.errors import ConfigError
from longshore.runtime.clock import ManualClock
from longshore.tasks.mail import EmailTask, address
from longshore.tasks.settings import SmtpSettings, TlsMode
from longshore.testing.factories import a_claim

CLAIM = a_claim(type="email.send")
ID = ids.text(CLAIM.id)


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    with running(CLAIM):
        yield


@pytest.fixture
def relay() -> Relay:
    return Relay()


@pytest.fixture
def task(relay: Relay) -> Iterator[EmailTask]:
    with listening(relay) as port:
        yield a_task(port)


def a_task(port: int, **changes: object) -> EmailTask:
    plain: dict[str, object] = {
        "host": "127.0.0.1",
        "port": port,
        "tls": TlsMode.NONE,
        "sender": "Shop <shop@example.org>",
    }
    return EmailTask(SmtpSettings(**{**plain, **changes}), clock=ManualClock())


def test_a_message_reaches_the_relay_as_it_was_meant(relay: Relay, task: EmailTask):
    receipt = task.send(
        ["Ada <ada@example.org>", "bob@example.org"],
        "Grüße",
        text="Hallo, schöne Welt\n.\nSchluss",
        html="<p>Hallo</p>",
        reply_to="help@example.org",
        cc=["eve@example.org"],
        bcc=["log@example.org"],
        headers={"List-Unsubscribe": "<https://example.org/off>"},
    )

    message = relay.message()
    assert str(message["From"]) == "Shop <shop@example.org>"
    assert str(message["To"]) == "Ada <ada@example.org>, bob@example.org"
    assert str(message["Cc"]) == "eve@example.org"
    assert message["Bcc"] is None
    assert str(message["Reply-To"]) == "help@example.org"
    assert str(message["Subject"]) == "Grüße"
    assert str(message["Date"]) == "Thu, 01 Jan 2026 00:00:00 +0000"
    assert str(message["List-Unsubscribe"]) == "<https://example.org/off>"
    text, html = message.iter_parts()
    assert text.get_content().split() == ["Hallo,", "schöne", "Welt", ".", "Schluss"]
    assert html.get_content().strip() == "<p>Hallo</p>"
    assert receipt.response == "250 queued as 7"
    assert receipt.recipients == relay.envelopes[0].rcpt_tos
    assert len(receipt.recipients) == 4


def test_the_message_id_is_the_same_in_every_attempt(relay: Relay, task: EmailTask):
    first = task.send(["ada@example.org"], "Hello", text="Hello")
    second = task.send(["ada@example.org"], "Hello", text="Hello")

    assert first.message_id == second.message_id == f"<{ID}@example.org>"
    assert all(f"Message-ID: <{ID}@".encode() in one.content for one in relay.envelopes)


def test_a_message_can_be_text_alone_or_html_alone(relay: Relay, task: EmailTask):
    task.send(["ada@example.org"], "Hello", html="<p>Hello</p>")

    assert relay.message().get_content_type() == "text/html"


@pytest.mark.parametrize("reply", ["450 greylisted", "421 closing", "452 too many"])
def test_a_recipient_refused_for_now_is_tried_again(relay: Relay, task: EmailTask, reply: str):
    relay.refused = {"ada@example.org": reply}

    with pytest.raises(Retry, match=reply):
        task.send(["ada@example.org"], "Hello", text="Hello")


def test_a_recipient_refused_for_good_ends_the_job_dead(relay: Relay, task: EmailTask):
    relay.refused = {"ada@example.org": "550 no such user"}

    with pytest.raises(Dead, match=r"ada@example\.org: 550 no such user"):
        task.send(["ada@example.org"], "Hello", text="Hello")


@pytest.mark.parametrize("reply", ["450 later", "550 never"])
def test_nobody_gets_mail_when_one_recipient_is_refused(
    relay: Relay, task: EmailTask, reply: str
):
    relay.refused = {"bob@example.org": reply}

    with pytest.raises((Retry, Dead)):
        task.send(["ada@example.org", "bob@example.org"], "Hello", text="Hello")

    assert relay.envelopes == []


@pytest.mark.parametrize(
    ("reply", "directive"), [("451 try later", Retry), ("554 looks like spam", Dead)]
)
def test_the_relays_word_on_the_content_decides(
    relay: Relay, task: EmailTask, reply: str, directive: type[Exception]
):
    relay.data_reply = reply

    with pytest.raises(directive, match=reply):
        task.send(["ada@example.org"], "Hello", text="Hello")


def test_a_sender_refused_for_good_ends_the_job_dead(relay: Relay, task: EmailTask):
    relay.mail_reply = "553 not yours"

    with pytest.raises(Dead, match="553 not yours"):
        task.send(["ada@example.org"], "Hello", text="Hello")


def test_what_the_relay_took_stays_taken_however_it_says_goodbye(relay: Relay, task: EmailTask):
    relay.quit_reply = "451 something is wrong"

    task.send(["ada@example.org"], "Hello", text="Hello")

    assert len(relay.envelopes) == 1


def test_a_relay_that_is_down_is_tried_again(relay: Relay):
    with listening(relay) as port:
        pass

    with pytest.raises(Retry, match="cannot be used"):
        a_task(port).send(["ada@example.org"], "Hello", text="Hello")


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "Hello\r\nBcc: eve@example.org"},
        {"subject": "Hello\nX-Evil: 1"},
        {"subject": "Hello\u2028X-Evil: 1"},
        {"to": ["ada@example.org\r\nRCPT TO:<eve@example.org>"]},
        {"to": ["ada@example.org> NOTIFY=NEVER"]},
        {"to": ["Ada\r\nBcc: eve@example.org <ada@example.org>"]},
        {"to": ["ada@example.org, eve@example.org"]},
        {"to": ["nobody"]},
        {"to": ["@example.org"]},
        {"to": ["ada@"]},
        {"to": ["ada@-example.org"]},
        {"to": ["ada@exa\0mple.org"]},
        {"to": ["äda@example.org"]},
        {"to": ["a" * 65 + "@example.org"]},
        {"to": []},
        {"to": [f"user{number}@example.org" for number in range(101)]},
        {"sender": "shop@example.org\nBcc: eve@example.org"},
        {"reply_to": "help@example.org\r\n"},
        {"cc": ["eve@example.org\n"]},
        {"bcc": ["eve"]},
        {"headers": {"X-Note": "a\r\nBcc: eve@example.org"}},
        {"headers": {"X-Note\r\nBcc": "eve@example.org"}},
        {"headers": {"X-Note: a\nBcc": "eve@example.org"}},
        {"headers": {"Bcc": "eve@example.org"}},
        {"headers": {"MESSAGE-ID": "<1@example.org>"}},
        {"headers": {"Content-Type": "text/html"}},
        {"headers": {"X-Note": "1", "x-note": "2"}},
        {"text": None},
    ],
)
def test_what_could_change_the_message_behind_our_back_ends_the_job_dead(
    relay: Relay, task: EmailTask, change: dict[str, object]
):
    arguments = {"to": ["ada@example.org"], "subject": "Hello", "text": "Hello"}

    with pytest.raises(Dead):
        task.send(**{**arguments, **change})  # type: ignore[arg-type]

    assert relay.envelopes == []


def test_a_line_that_looks_like_the_end_of_the_mail_does_not_end_it(
    relay: Relay, task: EmailTask
):
    smuggled = "Hello\r\n.\r\nMAIL FROM:<eve@example.org>\r\n\n.\n\r.\rEnd"

    task.send(["ada@example.org"], "Hello", text=smuggled)

    assert "End" in relay.message().get_content()
    assert len(relay.envelopes) == 1


def test_an_international_domain_travels_in_its_ascii_form():
    assert address("Ada <ada@bücher.example>").addr_spec == "ada@xn--bcher-kva.example"


def test_a_name_with_a_comma_stays_one_recipient(relay: Relay, task: EmailTask):
    task.send(['"Lovelace, Ada" <ada@example.org>'], "Hello", text="Hello")

    assert relay.envelopes[0].rcpt_tos == ["ada@example.org"]
    assert relay.message()["To"].addresses[0].display_name == "Lovelace, Ada"


def a_tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem")
    return context


def test_starttls_encrypts_before_the_password_is_sent(relay: Relay):
    options = {
        "tls_context": a_tls_context(),
        "authenticator": relay.authenticate,
        "auth_required": True,
    }
    with listening(relay, **options) as port:
        task = a_task(
            port,
            host="localhost",
            tls=TlsMode.STARTTLS,
            ca_file=str(TLS / "authority.pem"),
            user="shop",
            password="open sesame",
        )

        task.send(["ada@example.org"], "Hello", text="Hello")

    assert relay.was_encrypted
    assert relay.logins == [b"shop"]


def test_implicit_tls_encrypts_from_the_first_byte(relay: Relay):
    with listening(relay, ssl_context=a_tls_context()) as port:
        task = a_task(
            port,
            host="localhost",
            tls=TlsMode.IMPLICIT,
            ca_file=str(TLS / "authority.pem"),
        )

        task.send(["ada@example.org"], "Hello", text="Hello")

    assert len(relay.envelopes) == 1


def test_a_relay_that_offers_no_encryption_gets_no_mail(relay: Relay):
    with listening(relay) as port:
        task = a_task(port, tls=TlsMode.STARTTLS)

        with pytest.raises(Retry, match="STARTTLS"):
            task.send(["ada@example.org"], "Hello", text="Hello")

    assert relay.envelopes == []


def test_a_relay_with_a_strangers_certificate_gets_no_mail(relay: Relay):
    with listening(relay, tls_context=a_tls_context()) as port:
        task = a_task(port, host="localhost", tls=TlsMode.STARTTLS)

        with pytest.raises(Retry, match="certificate"):
            task.send(["ada@example.org"], "Hello", text="Hello")

    assert relay.envelopes == []


def test_a_wrong_password_does_not_cost_the_job_its_life(relay: Relay):
    options = {"tls_context": a_tls_context(), "authenticator": relay.authenticate}
    with listening(relay, **options) as port:
        task = a_task(
            port,
            host="localhost",
            tls=TlsMode.STARTTLS,
            ca_file=str(TLS / "authority.pem"),
            user="shop",
            password="guess",
        )

        with pytest.raises(Retry, match="535"):
            task.send(["ada@example.org"], "Hello", text="Hello")


def test_a_password_is_never_configured_for_a_connection_in_the_clear():
    with pytest.raises(ConfigError, match=r"smtp\.tls"):
        EmailTask(SmtpSettings(host="localhost", tls=TlsMode.NONE, user="shop", password="x"))


def test_the_password_does_not_show_in_logs():
    assert "open sesame" not in repr(SmtpSettings(password="open sesame"))


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (SmtpSettings(sender="shop@example.org"), "smtp.host"),
        (SmtpSettings(host="localhost"), "smtp.sender"),
    ],
)
def test_a_missing_setting_is_named(settings: SmtpSettings, setting: str):
    with pytest.raises(ConfigError, match=setting):
        EmailTask(settings).send(["ada@example.org"], "Hello", text="Hello")


def test_a_job_of_another_tenant_sends_only_as_the_worker_unless_the_worker_allows_more(
    relay: Relay, task: EmailTask
):
    with running(a_claim(type="email.send", tenant="acme")):
        with pytest.raises(Dead, match=r"'acme' may not send mail as ceo@bank\.example"):
            task.send(["ada@example.org"], "Hi", text="Hi", sender="Boss <ceo@bank.example>")
        task.send(["ada@example.org"], "Hi", text="Hi", sender="SHOP@example.org")
        task.send(["ada@example.org"], "Hi", text="Hi")

    assert [one.mail_from for one in relay.envelopes] == [
        "SHOP@example.org",
        "shop@example.org",
    ]


def test_a_job_of_the_only_tenant_may_name_any_sender(relay: Relay, task: EmailTask):
    task.send(["ada@example.org"], "Hi", text="Hi", sender="me@laptop.example")

    assert relay.envelopes[0].mail_from == "me@laptop.example"


@pytest.mark.parametrize("tenant", ["default", "acme"])
@pytest.mark.parametrize(
    ("allowed", "sender", "is_allowed"),
    [
        ("sales@acme.example", "Sales <sales@ACME.example>", True),
        ("Sales <sales@acme.example>", "sales@acme.example", True),
        ("sales@acme.example", "ceo@acme.example", False),
        ("@acme.example", "ceo@acme.example", True),
        ("@acme.example", "ceo@sub.acme.example", False),
        ("@acme.example", "ceo@notacme.example", False),
        ("@müller.example", "a@xn--mller-kva.example", True),
        ("sales@acme.example", "shop@example.org", True),
        ("*", "anyone@bank.example", True),
    ],
)
def test_a_list_of_allowed_senders_binds_every_tenant(
    relay: Relay, tenant: str, allowed: str, sender: str, is_allowed: bool
):
    with listening(relay) as port, running(a_claim(type="email.send", tenant=tenant)):
        task = a_task(port, allowed_senders=(allowed,))
        if is_allowed:
            task.send(["ada@example.org"], "Hi", text="Hi", sender=sender)
        else:
            with pytest.raises(Dead, match=r"smtp\.allowed_senders"):
                task.send(["ada@example.org"], "Hi", text="Hi", sender=sender)

    assert len(relay.envelopes) == is_allowed


@pytest.mark.parametrize("entry", ["acme.example", "@", "*@acme.example", "a b@acme.example"])
def test_an_allowed_sender_that_is_neither_address_nor_domain_is_refused(entry: str):
    with pytest.raises(ConfigError, match=r"smtp\.allowed_senders"):
        EmailTask(SmtpSettings(host="localhost", allowed_senders=(entry,)))
