"""Recognises titles that a program wrote by default, and file names in place of titles."""

import re

_SUFFIX = (
    r"\.(?:ai|cdr|csv|docx?|docm|dotx?|dvi|dwg|eps|fm|html?|indd|jpe?g|key|md|numbers|od[tsp]|p65|"
    r"pages|pdf|pmd|png|pp[st]x?|ps|pub|qx[dp]|rtf|tex|tiff?|txt|vsdx?|wp[d5]?|xls[xmb]?|xml)"
)

_DEFAULTS = re.compile(
    r"""
    # a program and the name of a file
      \(?(?:microsoft[ ]|ms[ ]|libreoffice[ ]|openoffice[ ])?(?:office[ ])?
        (?:word|excel|power[ ]?point|visio|publisher|project|outlook|writer|calc)[ ]-[ ].*
    | microsoft[ ](?:office[ ])?(?:word|excel|power[ ]?point|visio|publisher)
    | (?:adobe|coreldraw|quark)\S*[ ].*[ ]-[ ].* | enscript[ ]output
    # a file
    | \S+SUFFIX | [^.!?]*\wSUFFIX | (?:[a-z]:[\\/]|/|\\\\|file:|https?:|www\.).*
    | (?:about|blob|chrome|data):\S*
    # a new document; a number can follow
    | \(?(?:untitled|no[ ]title|unnamed|unknown|unbenannt|ohne[ ]titel|sans[ ]titre|sans[ ]nom
        |sin[ ]t[ií]tulo|senza[ ]titolo|sem[ ]t[ií]tulo|bez[ ]nazwy|bez[ ]názvu|bez[ ]tytu[łl]u
        |zonder[ ]titel|naamloos|utan[ ]titel|uten[ ]navn|без[ ]названия|без[ ]имени|无标题|無題
        |无题|無標題|제목[ ]없음|名称未設定|未命名|未命名文件|námatlan|nimetön|namnlös|namnlöst
        |unbenanntes
        |ohne[ ]namen|başlıksız|χωρίς[ ]τίτλο|без[ ]заголовка|無題の
        |ללא[ ]כותרת|بدون[ ]عنوان)
        (?:[ -]?(?:document|dokument|presentation|präsentation|spreadsheet|tabelle|diagram|notebook
        |section|page|design|drawing|file|form|asiakirja|文档|ドキュメント|プレゼンテーション))?
        [ _-]?\d*\)?
    | (?:document[oe]?|dokument|präsentation|présentation|presentación)[ ](?:sin[ ]t[ií]tulo
        |sans[ ](?:titre|nom)|senza[ ](?:titolo|nome)|sem[ ](?:t[ií]tulo|nome)
        |bez[ ](?:tytułu|názvu|nazwy)|zonder[ ](?:titel|naam)|ohne[ ](?:titel|namen)|utan[ ]titel
        |uten[ ](?:navn|tittel)|uden[ ]titel)[ ]?\d*
    | (?:new[ ]|blank[ ]|neues[ ]|nouveau[ ]|nuevo[ ]|nuovo[ ]|novo[ ]|nowy[ ]|nový[ ]|новый[ ]
        |新建[ ]?|新しい|새[ ]?)?(?:(?:microsoft[ ])?word[ -]|text[ ]?)?
        (?:document[oes]?|dokument|doc|presentation|präsentation|présentation|presentación|book
        |mappe|classeur|libro|sheet|tabelle|feuil|blatt|hoja|foglio|planilha|arkusz
        |zeszyt|sešit|sayfa|workbook|worksheet|spreadsheet|binder|portfolio|folie|drawing
        |zeichnung|layout|page|seite|slide|folie
        |diapositiva|diapositive|slayt|publication|文档|文件|文書|ドキュメント|문서|工作表
        |工作簿|幻灯片|スライド|슬라이드|документ|презентация|книга|лист)
        [ _-]?\d*
    | (?:document|dokument|documento|документ)[ ](?:de[ ])?(?:microsoft[ ])?(?:word|office)[ ]?\d*
    | (?:microsoft[ ])?(?:powerpoint[ -]?(?:presentation|präsentation|presentatie|presentasjon
        |præsentation)
        |pr[ée]sentation[ ]powerpoint|presentaci[óo]n[ ]de[ ]powerpoint
        |presentazione[ ](?:standard[ ]di[ ])?powerpoint|apresenta[çc][ãa]o[ ]do[ ]powerpoint
        |prezentacja[ ]programu[ ]powerpoint|prezentace[ ]aplikace[ ]powerpoint
        |презентация[ ]powerpoint|powerpoint[ ](?:演示文稿|プレゼンテーション|簡報))[ ]?\d*
    # placeholders
    | [<\[({%$@#]*
        (?:your[ ]|insert[ ]|add[ ]|enter[ ]|type[ ]|the[ ]|(?:document|page|paper|article|report
        |site|website
        |book|presentation|thesis|project|web[ ]?page|main|default|sample)[ ]?|click[ ]to[ ](?:add
        |edit)[ ]){0,3}
        (?:title|titel|titre|título|titolo)(?:[ ](?:here|goes[ ]here|slide|style|page
        |of[ ](?:the[ ]|your[ ])?(?:document|page|paper|article|report|book|presentation|thesis)))?
        [>\])}%$]*
    | \{\{.*\}\} | \$\{.*\} | <%.*%> | lorem[ ]ipsum\b.*
    | (?:sample|example|blank|test|my|new|acrobat|pdf|google|html|web)?[ _-]?
        (?:docs?|document|template|vorlage|page|web[ ]?page|web[ ]?site|pdf|app)[ _-]?\d*
    | \(?anonymous\)?|none|null|undefined|nil|n/a|test|temp|tmp|default|noname|main|paper|output
        |print|printing|print[ ](?:page|preview|version)|report|article|draft|home(?:[ ]?page)?
        |index|start[ ]?page|landing[ ]page
        |loading\W*|please[ ]wait\W*|just[ ]a[ ]moment\W*|redirecting\W*|full[ ]page[ ]fax[ ]print
        |fax(?:[ ]cover(?:[ ]sheet|[ ]page)?)?
    # names of programs, and the numbers and keys that they write
    | (?:pdf|xe|lua)?(?:la)?tex(?:[ ]?2(?:e|ε))?(?:[ ](?:document|output[ ].*))?
    | (?:react|next\.?js|vite|vue|angular|svelte|create[ ]next)[ ](?:app|\+[ ].*)
    | (?:crystal|jasper)[ ]?reports?(?:[ ]-[ ].*)? | reportlab.* | wkhtmltopdf | overleaf[ ]example
    | (?:doi:?[ ]?|pii:?[ ]?|10\.\d{4,}[/_])\S+
    | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]{32,64}
    | (?:(?:page|p\.|no\.?|nr\.?)[ ]?)?[\d\W_]+
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
