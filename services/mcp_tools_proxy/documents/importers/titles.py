"""Recognises titles that a program wrote by default, and file names in place of titles."""

import re

_SUFFIX = (
    r"\.(?:ai|cdr|csv|docx?|docm|dotx?|dvi|dwg|eps|fm|html?|indd|jpe?g|key|md|numbers|od[tsp]|p65|"
    r"pages|pdf|pmd|png|pp[st]x?|ps|pub|qx[dp]|rtf|tex|tiff?|txt|vsdx?|wp[d5]?|xls[xmb]?|xml)"
)

_DEFAULTS = re.compile(
    r"""
    # a program and the name of a file
      (?:microsoft[ ]|ms[ ]|libreoffice[ ]|openoffice[ ])?(?:office[ ])?
        (?:word|excel|power[ ]?point|visio|publisher|project|outlook|writer|calc)[ ]-[ ].*
    | microsoft[ ](?:office[ ])?(?:word|excel|power[ ]?point|visio|publisher)
    | (?:adobe|coreldraw|quark)\S*[ ].*[ ]-[ ].* | enscript[ ]output
    # a file
    | \S+SUFFIX | [^.!?]*\wSUFFIX | (?:[a-z]:[\\/]|/|\\\\|file:|https?:|www\.).*
    # a new document; a number can follow
    | \(?(?:untitled|no[ ]title|unnamed|unknown|unbenannt|ohne[ ]titel|sans[ ]titre|sans[ ]nom
        |sin[ ]t[ií]tulo|senza[ ]titolo|sem[ ]t[ií]tulo|bez[ ]nazwy|bez[ ]názvu|bez[ ]tytu[łl]u
        |zonder[ ]titel|naamloos|utan[ ]titel|uten[ ]navn|без[ ]названия|без[ ]имени|无标题|無題
        |无题|無標題|제목[ ]없음|başlıksız)
        (?:[ -]?(?:document|dokument|presentation|spreadsheet|diagram|notebook))?[ _-]?\d*\)?
    | (?:new[ ]|neues[ ]|nouveau[ ])?(?:(?:microsoft[ ])?word[ ])?
        (?:document[oes]?|dokument|doc|presentation|präsentation|présentation|presentación|book
        |mappe|classeur|libro|sheet|tabelle|feuil|drawing|zeichnung|layout|page|seite|slide|folie
        |diapositiva|diapositive|slayt|publication|文档|文書|документ|презентация|книга|лист)
        [ _-]?\d*
    | (?:powerpoint[ -]?(?:presentation|präsentation|presentatie|presentasjon|præsentation)
        |pr[ée]sentation[ ]powerpoint|presentaci[óo]n[ ]de[ ]powerpoint
        |presentazione[ ](?:standard[ ]di[ ])?powerpoint|apresenta[çc][ãa]o[ ]do[ ]powerpoint
        |prezentacja[ ]programu[ ]powerpoint|prezentace[ ]aplikace[ ]powerpoint
        |презентация[ ]powerpoint|powerpoint[ ](?:演示文稿|プレゼンテーション|簡報))[ ]?\d*
    # placeholders
    | [<\[({]*
        (?:your[ ]|insert[ ]|enter[ ]|document[ ]|type[ ](?:the[ ])?(?:document[ ])?
        |click[ ]to[ ](?:add|edit)[ ].*)?
        (?:title|titel|titre|título|titolo)(?:[ ](?:here|slide|style))?[>\])}]*
    | \(?anonymous\)?|none|null|undefined|nil|n/a|test|temp|tmp|default|noname|main|paper|output
        |print|printing
    # scanners
    | (?:scan(?:ned)?|img|image|bild|dsc[nf]?|doc|fax|camscanner|adobe[ ]scan)
        (?:[ ](?:document|page|image|from)\b.*)?[\s\d_().:-]*
    | s?km(?:bt)?_\w*\d
    """.replace("SUFFIX", _SUFFIX),
    re.IGNORECASE | re.VERBOSE,
)


def own_title(title: str) -> str:
    """Return a file's title, or "" if it is a default of a program or the name of a file."""
    is_title = any(map(str.isalnum, title)) and not _DEFAULTS.fullmatch(title.strip())
    return title if is_title else ""
