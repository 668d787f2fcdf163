"""Encodings of imported text: named, declared and detected (contract §5)."""

from pathlib import Path

import pytest

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.kinds import import_data
from mcp_tools_proxy.documents.importers.text_encoding import DecodedText, decode_text
from tests.support.tables import each_row

FILES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

TEXTS = {
    "pl": (
        "windows-1250 iso-8859-2 cp852",
        "Wniosek o urlop należy złożyć co najmniej siedem dni wcześniej. Pracownik, "
        "który zachoruje, zgłasza nieobecność przełożonemu jeszcze tego samego dnia.",
    ),
    "cs": (
        "windows-1250 iso-8859-2",
        "Žádost o dovolenou se podává nejméně sedm dní předem. Zaměstnanec, který "
        "onemocní, oznámí nepřítomnost svému vedoucímu ještě týž den.",
    ),
    "hu": (
        "windows-1250 iso-8859-2",
        "A szabadságot legalább hét nappal előbb kell kérni. Aki megbetegszik, még "
        "aznap értesíti a közvetlen főnökét erről.",
    ),
    "de": (
        "windows-1252 iso-8859-1 iso-8859-15 cp850 mac_roman "
        "utf-16-le utf-16-be utf-32-le utf-32-be",
        "Die Gebühr für Überweisungen beträgt fünf Euro. Müller größer als üblich: "
        "Bitte prüfen Sie die Anträge möglichst früh und schließen Sie die Tür.",
    ),
    "fr": (
        "windows-1252 iso-8859-1 mac_roman cp850",
        "Très bien. La crème brûlée coûte quatre euros. Le garçon a été là où "
        "l'élève préférait déjeuner, près de la forêt.",
    ),
    "es": (
        "windows-1252 iso-8859-1 cp850",
        "El año próximo la compañía pagará también los días de vacación. ¿Quién "
        "firmó la solicitud? Mañana llegará el señor Núñez.",
    ),
    "pt": (
        "windows-1252 iso-8859-1",
        "A solicitação de férias não será aceita após o prazo. Os funcionários "
        "deverão avisar até amanhã se a situação continuar.",
    ),
    "sv": (
        "windows-1252 iso-8859-1",
        "Avgiften för överföringar är fem kronor. Ansökan måste lämnas åtta dagar "
        "före resan, och chefen får inte säga nej utan skäl.",
    ),
    "da": (
        "windows-1252",
        "Gebyret for overførsler er fem kroner. Ansøgningen skal afleveres på "
        "kontoret før den første måned er gået, også af nye medarbejdere.",
    ),
    "it": (
        "windows-1252",
        "La tariffa è di cinque euro perché il servizio è già attivo. Più tardi si "
        "potrà chiedere un rimborso, ma solo se c'è necessità.",
    ),
    "ru": (
        "windows-1251 koi8-r cp866 iso-8859-5 mac_cyrillic utf-16-le utf-16-be utf-32-le",
        "Заявление на отпуск подают не позднее чем за семь дней. Сотрудник, который "
        "заболел, сообщает об этом руководителю в тот же день.",
    ),
    "uk": (
        "windows-1251",
        "Заяву на відпустку подають не пізніше ніж за сім днів. Працівник, який "
        "захворів, повідомляє про це керівника того ж дня її початку.",
    ),
    "bg": (
        "windows-1251",
        "Молбата за отпуск се подава най-късно седем дни по-рано. Служител, който се "
        "разболее, съобщава за това на ръководителя си същия ден.",
    ),
    "el": (
        "windows-1253 iso-8859-7",
        "Η αίτηση για άδεια υποβάλλεται επτά ημέρες νωρίτερα. Ο υπάλληλος που "
        "αρρωσταίνει ενημερώνει τον προϊστάμενο την ίδια ημέρα.",
    ),
    "tr": (
        "windows-1254 iso-8859-9",
        "İzin başvurusu en az yedi gün önce yapılır. Hastalanan çalışan aynı gün "
        "yöneticisine haber verir. Ücret ödemeleri şubelerde değil, müdürlükte "
        "yapılır.",
    ),
    "ar": (
        "windows-1256 iso-8859-6",
        "يقدم طلب الإجازة قبل سبعة أيام على الأقل. والموظف الذي يمرض يخبر رئيسه في "
        "اليوم نفسه، ثم يرسل الشهادة الطبية إلى المكتب.",
    ),
    "he": (
        "windows-1255",
        "בקשה לחופשה מגישים לפחות שבעה ימים מראש. עובד שחלה מודיע על כך למנהל שלו עוד באותו היום.",
    ),
    "ja": (
        "shift_jis euc-jp iso-2022-jp utf-16-le utf-16-be utf-32-be",
        "休暇の申請は、少なくとも七日前までに提出してください。病気になった社員は、その日のうちに上司へ連絡します。",
    ),
    "zh": (
        "gb18030 gbk",
        "请假申请至少要提前七天提交。员工生病时，应当在当天通知自己的主管，并且补交医院的证明。",
    ),
    "zh-TW": (
        "big5",
        "請假申請至少要提前七天提交。員工生病時，應當在當天通知自己的主管，並且補交醫院的證明。",
    ),
    "ko": (
        "euc-kr",
        "휴가 신청은 적어도 칠 일 전에 제출해야 합니다. "
        "아픈 직원은 그날 안에 관리자에게 알려야 합니다.",
    ),
    "th": (
        "tis-620",
        "ต้องยื่นใบลาล่วงหน้าอย่างน้อยเจ็ดวัน พนักงานที่ป่วยต้องแจ้งหัวหน้าในวันเดียวกัน",
    ),
    "lt": (
        "windows-1257",
        "Prašymą dėl atostogų reikia pateikti bent prieš septynias dienas. Susirgęs "
        "darbuotojas tą pačią dieną praneša savo vadovui, kuris jį užrašo į žurnalą.",
    ),
    "en": (
        "windows-1252",
        "The fee is five euros – “no exceptions”. The café’s owner pays £10 or €12 "
        "for each naïve mistake in his résumé.",
    ),
    "en-GB": (
        "cp437",
        "The fee is £10. Café and résumé are accepted, and so is naïve; the "
        "temperature is 20° at most.",
    ),
}
"""Text by language, each in the encodings that people use for it."""

SAMPLES = [
    (language, encoding, text)
    for language, (encodings, text) in TEXTS.items()
    for encoding in encodings.split()
]


def decoded(
    data: bytes, *, encoding: str | None = None, language: str | None = None
) -> DecodedText:
    options = ImportOptions(
        tenant_id="t", doc_id="d", stem="s", encoding=encoding, language=language
    )
    return decode_text(data, options)


@each_row(("language", "encoding", "text"), SAMPLES)
def test_text_without_a_stated_encoding_is_read(language: str, encoding: str, text: str) -> None:
    assert decoded(text.encode(encoding)).text == text


@each_row(("language", "encoding", "text"), SAMPLES)
def test_short_text_is_read_if_its_language_is_known(
    language: str, encoding: str, text: str
) -> None:
    data = text[:60].encode(encoding)
    assert decoded(data, language=language).text == data.decode(encoding)


def test_a_byte_order_mark_wins_over_the_named_encoding() -> None:
    assert decoded("\ufeffä".encode("utf-16"), encoding="windows-1252").text == "ä"


def test_utf_32_with_a_byte_order_mark_is_read() -> None:
    assert decoded("ä€".encode("utf-32")).text == "ä€"


@each_row("name", ["iso-8859-5", "ISO_8859-5", "cyrillic"])
def test_the_named_encoding_wins_over_detection(name: str) -> None:
    text = "Цена"
    assert decoded(text.encode("iso-8859-5"), encoding=name).text == text


@each_row("name", ["klingon", "base64", "rot13", "unicode_escape", ""])
def test_an_unknown_encoding_is_an_error_with_its_name(name: str) -> None:
    if not name:
        assert decoded(b"text", encoding=name).text == "text"
        return
    with pytest.raises(ImportFailed) as refused:
        decoded(b"text", encoding=name)
    assert f'"{name}"' in refused.value.reason


def test_latin_1_is_read_like_in_browsers() -> None:
    assert decoded(b"\x93five\x94 \x80", encoding="iso-8859-1").text == "“five” €"


def test_text_that_is_not_in_the_named_encoding_is_refused() -> None:
    with pytest.raises(ImportFailed, match=r"is not utf-8 text \(byte \d\)"):
        decoded("Größe und Preis für Müller".encode("windows-1252")[2:] * 3, encoding="utf-8")


def test_a_wrong_byte_in_utf_8_costs_only_itself() -> None:
    text = "Größe, Übergröße, Mädchen, Bär, Öl, Äpfel, süß. " * 5
    result = decoded(text.encode() + b"caf\xe9")
    assert result.text == text + "café"
    assert [warning.code for warning in result.warnings] == ["guessed_encoding"]


def test_a_doubtful_guess_is_a_warning() -> None:
    (warning,) = decoded("Имя;Город".encode("windows-1251")).warnings
    assert warning.code == "guessed_encoding"


def test_the_euro_sign_of_latin_9_is_read() -> None:
    text = "Die Gebühr für die Übergröße beträgt künftig fünf €."
    assert decoded(text.encode("iso-8859-15")).text == text


@each_row(
    ("encoding", "text"),
    [
        ("windows-1250", "Opłata za każdy dzień zwłoki. Otwarte od poniedziałku do piątku."),
        ("windows-1250", "Spotkanie w piątek o dziesiątej. Proszę się nie spóźnić."),
        ("iso-8859-2", "Spotkanie w piątek o dziesiątej. Proszę się nie spóźnić."),
        ("windows-1252", "The “new” fee – 5 £ – isn’t due until 3 May… Zoë’s café."),
        ("windows-1252", "Members don’t pay."),
        ("windows-1252", "Keep it at 20 °C ± 2."),
        ("windows-1252", "• one\n• two – “really”\n"),
        ("cp850", "Das ist schön."),
        ("windows-1252", "Open 9 – 17, closed on “bank holidays”."),
        ("iso-8859-15", "Merci d'être à l'heure, le cœur et les œuvres, près de la forêt."),
    ],
)
def test_letters_tell_similar_encodings_apart(encoding: str, text: str) -> None:
    assert decoded(text.encode(encoding)).text == text


def test_a_large_ascii_text_with_one_letter_is_read() -> None:
    data = b"The price is fixed.\n" * 20_000 + "Das Café schließt früher für die Gäste.".encode(
        "windows-1252"
    )
    assert decoded(data).text.endswith("Das Café schließt früher für die Gäste.")


@each_row("data", [bytes(range(256)) * 40, b"\x89PNG\r\n\x1a\n\x00\x00\xff" * 100])
def test_data_is_refused_as_no_text(data: bytes) -> None:
    with pytest.raises(ImportFailed, match="is not text"):
        decoded(data)


@each_row(
    ("name", "text"),
    [
        ("15-latin1.txt", "Die Gebühr für Überweisungen beträgt fünf Euro. Müller grüßt."),
        ("16-cp1252-semicolon.csv", "| Hemd | Übergröße | 12,50 |"),
        ("17-french-cp1252-no-charset.html", "Très bien. La crème brûlée coûte 4 euros."),
    ],
)
def test_files_of_office_programs_are_read(name: str, text: str) -> None:
    path = FILES / name
    document = import_data(
        path.read_bytes(), path.suffix, ImportOptions(tenant_id="t", doc_id="d", stem="s")
    )
    assert text in document.pages[0]
    assert document.warnings == ()


@each_row(
    ("head", "encoding"),
    [
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ("<!-- <meta charset=utf-8> --><meta charset='windows-1251'>", "windows-1251"),
        ('<?xml version="1.0" encoding="iso-8859-5"?>', "iso-8859-5"),
        ("<meta charset=gb2312>", "gb18030"),
    ],
)
def test_the_head_of_a_page_names_its_encoding(head: str, encoding: str) -> None:
    text = "Цена 5" if encoding != "gb18030" else "請假申請"
    page = f"{head}<p>{text}</p>".encode(encoding)
    options = ImportOptions(tenant_id="t", doc_id="d", stem="s")
    assert import_data(page, ".html", options).pages == (text,)


def test_the_language_of_a_page_helps_to_detect_its_encoding() -> None:
    page = "<html lang=pl><p>Łódź".encode("windows-1250")
    options = ImportOptions(tenant_id="t", doc_id="d", stem="s")
    assert import_data(page, ".html", options).pages == ("Łódź",)


@each_row(
    ("text", "encoding"),
    [
        ("naïve résumé", "cp1252"),
        ("Noël", "cp1252"),
        ("Târgu Mureş", "cp1250"),
        ("Wrocław", "cp1250"),
        ("Kąt prosty", "cp1250"),
    ],
)
def test_an_encoding_detected_by_few_letters_is_not_certain(text: str, encoding: str) -> None:
    warnings = decoded(text.encode(encoding)).warnings
    assert [it.code for it in warnings] == ["guessed_encoding"]
