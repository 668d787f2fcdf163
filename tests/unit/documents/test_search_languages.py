from dataclasses import replace

import pytest

from mcp_tools_proxy.documents.search.search_index import build_index
from tests.support.builders import make_document
from tests.support.tables import each_row

PROSE = {
    "german": "Das ist der Text, den wir für die Leser und auch für uns selbst geschrieben haben. ",
    "french": "Ceci est le texte que nous avons écrit pour les lecteurs et aussi pour nous. ",
    "spanish": "Este es el texto que hemos escrito para los lectores y también para nosotros. ",
    "italian": "Questo è il testo che abbiamo scritto per i lettori e anche per noi stessi. ",
    "portuguese": "Este é o texto que nós escrevemos para os leitores e também para nós. ",
    "dutch": "Dit is de tekst die wij voor de lezers en ook voor onszelf hebben geschreven. ",
    "swedish": "Det här är texten som vi har skrivit för läsarna och även för oss själva. ",
    "russian": "Это текст, который мы написали для читателей и также для нас самих. ",
    "english": "This is the text that we have written for the readers and for ourselves as well. ",
}


def pages_found(*pages: str, query: str) -> list[int]:
    index = build_index(make_document(pages=pages))
    return [hit.page for hit in index.search(query, 5)]


@pytest.mark.requirement("T-07")
@each_row(
    ("language", "written", "query"),
    [
        ("english", "the obsoleting packages", "obsolete package"),
        ("german", "Häuser", "Haus"),
        ("german", "Paketverwaltung", "Verwaltung"),
        ("german", "Netzwerk und Sicherung", "Netzwerksicherung"),
        ("french", "les chevaux", "cheval"),
        ("spanish", "configuraciones", "configuración"),
        ("spanish", "configuración", "configuracion"),
        ("italian", "installati", "installare"),
        ("portuguese", "configurações", "configuração"),
        ("dutch", "boeken", "boek"),
        ("swedish", "servrarna", "server"),
        ("russian", "установить", "установка"),
        ("russian", "пакетов", "пакеты"),
    ],
)
def test_a_word_is_found_in_another_inflection(language: str, written: str, query: str) -> None:
    prose = PROSE[language] * 3
    assert pages_found(prose, f"{prose} {written}", query=query)[:1] == [2]


def test_the_stated_language_of_a_document_has_precedence_over_detection() -> None:
    pages = (PROSE["english"] * 3, "les chevaux")
    french = build_index(replace(make_document(pages=pages), language="fr-CA"))
    assert [hit.page for hit in french.search("chevalin cheval", 5)] == [2]
    assert build_index(make_document(pages=pages)).search("chevaux", 5)[0].page == 2


@each_row(
    ("written", "query"),
    [
        ("UseCaseId", "case"),
        ("UseCaseId", "usecaseid"),
        ("max_text_bytes", "text_bytes"),
        ("--with-foo", "foo"),
        ("HTTPServerError", "server error"),
        ("configuration", "confguration"),
        ("recommended", "recomended"),
        ("separate", "seperate"),
    ],
)
def test_parts_of_identifiers_and_typos_find_the_word(written: str, query: str) -> None:
    assert pages_found("nothing of that", f"before {written} after", query=query) == [2]


@each_row(
    ("written", "query"),
    [
        ("安装软件包之后重新启动系统。", "软件包怎么安装"),
        ("パッケージをインストールした後で再起動します。", "インストール"),
        ("パッケージをインス\nトールした後", "インストール"),
        ("패키지를 설치한 다음에", "패키지 설치"),
        ("ติดตั้งแพ็กเกจแล้วเริ่มระบบใหม่", "แพ็กเกจ"),
        ("使用apt命令安装", "apt"),
        ("黑猫", "猫"),
    ],
)
def test_text_without_spaces_is_found_by_character_pairs(written: str, query: str) -> None:
    assert pages_found("nothing of that", written, query=query) == [2]


def test_question_words_are_ignored() -> None:
    questions = "How what which where when who why can I do it. " * 5
    assert pages_found(questions, "the backup", query="How do I make a backup?")[0] == 2


def test_a_query_of_only_question_words_is_searched() -> None:
    assert pages_found("nothing", "to be or not to be", query="to be") == [2]


def test_an_exact_word_ranks_before_a_similar_one() -> None:
    assert pages_found("reconfigurations", "configuration", query="configuration") == [2, 1]
