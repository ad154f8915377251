#include "chat/word_table.h"

namespace anabranch::text {
namespace {

// clang-format off
constexpr WordEntry kWords[] = {
    {Words::make, "write give make create generate produce return output print show build implement draft provide respond "
                  "answer reply format convert extract put present code develop need want compose design list render compare contrast summarize summarise organize arrange"},
    {Words::make, "schreib schreibe schreiben_sie gib geben_sie erstelle erstell erstellen_sie erzeuge generiere liefere "
                  "antworte implementiere programmiere zeige entwickle baue brauche mach mache extrahiere formatiere ausgabe vergleiche fasse ordne"},
    {Words::make, "ecris ecrivez ecrire donne donnez cree creez creer genere generez reponds repondez retourne retournez "
                  "renvoie renvoyez affiche fais faites implemente implementez programme_moi extrais extrayez presente produis compare comparez resume resumez"},
    {Words::make, "escribe escriba escribir dame da crea cree crear genera genere generar devuelve devuelva responde responda "
                  "muestra haz haga implementa implemente extrae extraiga necesito presenta produce compara compare resume resuma"},
    {Words::make, "scrivi scriva scrivere dammi dai crea creare genera generare restituisci rispondi mostra mostrami fai "
                  "fammi implementa estrai presenta produci ho_bisogno confronta riassumi"},
    {Words::make, "escreva escreve escrever de_me crie cria criar gere gera gerar retorne retorna devolva responda mostre "
                  "faca implemente extraia preciso apresente produza compare resuma"},
    {Words::make, "напиши напишите написать дай дайте создай создайте создать сгенерируй сгенерируйте верни верните выведи "
                  "выведите ответь ответьте покажи покажите сделай сделайте реализуй реализуйте извлеки извлеките составь составьте нужна нужен сравни сравните"},
    {Words::make, "写 给我 给出 生成 创建 返回 输出 实现 编写 制作 做一个 做个 回答 提取 用表格 列 比较"},
    {Words::code_verb, "write implement code program develop create generate build make schreib schreibe implementiere programmiere entwickle erstelle "
                       "ecris ecrivez ecrire implemente implementez developpe cree escribe escriba implementa implemente crea programa desarrolla scrivi scriva "
                       "sviluppa escreva escreve crie desenvolva напиши напишите написать реализуй реализуйте 写 编写 实现 書いて 実装して 作って 作成して schreiben implementieren"},
    {Words::make_after, "書いて 書け 作って 作成して 作成し 出力して 出力し 返して 実装して 生成して 答えて 回答して 抽出して まとめて 示して ください"},
    {Words::make_after, "schreiben erstellen erzeugen geben generieren ausgeben programmieren implementieren zuruckgeben darstellen"},

    {Words::convert, "convert rewrite port translate turn transform migrate umwandeln wandle konvertiere ubersetze portiere schreibe_um"},
    {Words::convert, "convertis convertissez convertir traduis traduisez transforme convierte convierta traduce convierta converti traduci "
                     "riscrivi converta traduza reescreva reescribe перепиши перепишите переведи переведите преобразуй 转换 改写 翻译 転換 書き換えて 変換して"},
    {Words::fix, "fix refactor optimize optimise debug correct complete rewrite improve simplify korrigiere optimiere verbessere refaktoriere "
                 "vervollstandige corrige corrigez optimisez optimise refactorise ameliore ameliorez complete corrige corrija optimiza mejora correggi "
                 "ottimizza migliora otimize melhore corrija исправь исправьте оптимизируй улучши отрефактори 修复 修正 优化 重构 改进 修正して 直して 最適化して 改善して"},

    {Words::translate, "translate translation_of ubersetze ubersetz ubersetzen ubersetzung_von traduis traduisez traduire traduction_de traduce traduzca traducir "
                       "traduceme traduci traduca tradurre traduza traduz traduzir переведи переведите перевести перевод_на 翻译 翻譯 译成 译为 翻訳 訳して 訳せ 和訳 英訳 "
                       "how_do_you_say how_do_i_say how_to_say wie_sagt_man comment_dit_on como_se_dice come_si_dice como_se_diz как_сказать 怎么说 何と言 なんと言"},

    {Words::list_verb, "list name suggest recommend enumerate mention brainstorm come_up_with think_of give_me give_us tell_me tell_us what_are_the"},
    {Words::list_verb_other, "nenne nenn nennen_sie liste zahle empfiehl schlage gib_mir gib_uns geben_sie_mir sag_mir cite citez liste listez propose proposez suggere "
                             "enumere enumerez nomme nommez recommande donne_moi donnez_moi donne_nous enumera lista nombra dame danos menciona sugiere cita recomienda "
                             "elenca nomina dammi dacci suggerisci proponi consiglia elenque liste cite sugira mencione recomende de_me "
                             "назови назовите перечисли перечислите предложи предложите приведи приведите посоветуй дай_мне дайте_мне 列出 列举 举出 举 推荐"},
    {Words::list_weak, "give write generate provide find show create make share tell what_are schreib schreibe gib erstelle zeige finde donne donnez ecris ecrivez trouve "
                       "escribe escriba da genera crea busca scrivi trova dai escreva escreve gere encontre дай дайте напиши напишите найди 给我 给出 写出 写 说出 生成"},
    {Words::list_noun, "tips ideas reasons examples ways suggestions facts names titles questions synonyms antonyms benefits advantages disadvantages options alternatives "
                       "recommendations arguments causes steps things topics hints rules features headlines slogans "
                       "tipps ideen grunde beispiele vorschlage fakten namen titel fragen synonyme vorteile nachteile moglichkeiten argumente ursachen themen "
                       "conseils idees raisons exemples facons suggestions faits noms titres questions synonymes avantages inconvenients options arguments causes "
                       "consejos ideas razones ejemplos maneras formas sugerencias datos nombres titulos preguntas sinonimos ventajas desventajas opciones argumentos causas "
                       "consigli idee ragioni motivi esempi modi suggerimenti fatti nomi titoli domande sinonimi vantaggi svantaggi opzioni argomenti cause "
                       "dicas ideias razoes motivos exemplos maneiras sugestoes fatos nomes perguntas vantagens desvantagens opcoes "
                       "советов совета идей идеи причин причины примеров примера способов способа предложений вопросов вопроса названий названия синонимов синонима преимуществ "
                       "建议 想法 理由 原因 例子 方法 问题 名字 标题 优点 缺点 办法 コツ アイデア 理由 例 方法 ヒント 質問 名前 候補"},
    {Words::list_after, "挙げて あげて 列挙して リストアップ 提案して nennen auflisten aufzahlen vorschlagen empfehlen"},
    {Words::list_after_weak, "教えて 出して 書いて ください"},
    {Words::before_count, "me us out down the top best first at_least at_most exactly about just only some mir uns die das den auf genau mindestens etwa nur bitte "
                          "moi nous les au_moins exactement nos los las al_menos exactamente i le gli almeno esattamente os as ao_menos pelo_menos exatamente "
                          "мне нам хотя_бы ровно 至少 一下 出"},
    {Words::told, "i we they he she it who which that this a an the my your his her our their of in should must may might ich wir sie er ein eine je nous ils il elle une un la le yo el ella io lui eu ele ela я мы они он она"},
    {Words::plural, "people men women children feet teeth mice geese fish species series media criteria phenomena fungi dice sheep"},
    {Words::counter, "个 個 种 種 条 條 项 項 点 點 つ 件 本 选 選 部 家 位 名 冊"},
    {Words::item_unit, "word words sentence sentences line lines paragraph paragraphs page pages character characters letter letters minute minutes hour hours "
                       "day days second seconds percent degrees dollars euros times years months weeks star euro cents grams kilos kilometers kilometres meters metres miles numbers number integers digits fractions act acts stanza stanzas verses chapters halves thirds quarters fifths sixths tenths step_by_step more "
                       "zahlen bruche strophen worter wortern worte satz satze satzen zeilen zeichen absatze seiten minuten stunden tage tagen jahre mal prozent "
                       "nombres mots phrase phrases lignes paragraphes caracteres minutes heures jours ans fois palabras frase frases oracion oraciones lineas parrafos minutos horas dias anos veces "
                       "parole righe paragrafi minuti ore giorni anni volte palavras linhas paragrafos vezes слов слова предложени* строк* абзац* минут* час* дн* лет раз 字 句 句话 行 段 分钟 天 次 文字 文 分 日"},

    {Words::after_noun, "of for with by to in about and or from per than as at on fur von und oder bei aus zu uber mit de des du d pour avec et ou sur di da del per e para por com con y sobre из для с и или про в о"},

    // "don t": what folding leaves of "don't".
    {Words::negation, "not no never without avoid cannot can_t don_t do_not doesn_t didn_t won_t dont instead_of rather_than nicht kein keine keinen keinem keiner nie niemals ohne statt anstatt "
                      "pas jamais aucun aucune sans au_lieu_de nunca ningun sin en_lugar_de en_vez_de non_scrivere non_usare non_fare non_dare non_elencare non_tradurre non_voglio "
                      "non_in non_come senza invece_di nao nenhum sem em_vez_de не нет без вместо 不要 不用 不需要 不能 别 請勿 请勿 而不是 没有"},
    {Words::negation_last, "ないで ではなく なしで 不要です"},
    // "no formato" is Portuguese for "in the form".
    {Words::contrast, "but just only instead rather no_formato no_estilo sondern nur stattdessen aber mais seulement plutot pero sino solo ma bensi mas apenas но а только лишь 而是 只 但"},
    {Words::refusal, "no nope nah nein non nao нет 不 不是 いいえ"},

    {Words::explain, "what_is what_are what_s what_does what_do why how_does how_do how_can how_to how_is explain describe define difference is are does do_you can_i "
                     "was_ist was_sind was_bedeutet warum wieso wie_funktioniert erklare erklar beschreibe unterschied ist "
                     "qu_est_ce que_signifie pourquoi comment explique expliquez decris c_est_quoi que_es que_son que_significa por_que como explica explique "
                     "cos_e che_cos_e cosa_e perche spiega o_que_e что_такое что_значит почему зачем объясни объясните как 什么是 为什么 解释 是什么 何ですか とは なぜ 説明して どうやって"},
    {Words::as, "as als comme como come как 以 用 按 valid only just pure strict gultiges gultigem nur valide uniquement valido solo apenas только"},
    {Words::in, "in into to with using en au sous vers dans im ins nach mit al em no para com nel в во на 成 为 為 到 转 with_the"},
    {Words::as_after, "format form only output formatiert only_ please response で に として 形式 格式 的形式 формат* 输出 返回 の形"},
    {Words::given, "this these that following given above below from the_given provided existing attached "
                   "diese dieses diesem diesen folgende folgendes folgenden aus obige ce cette cet ces suivant suivante depuis du este esta estos siguiente desde "
                   "questo questa questi seguente dal dalla esse essa deste desta seguinte этот эту это эти следующий следующую следующего из 这个 这段 这 下面 以下 从 この 次の 上の parse parsing read reads"},
    {Words::about, "about that which who whose describing explaining on regarding uber welche welcher welches sur qui dont sobre acerca que su riguardo che acerca_de "
                   "о об про которая который которую которые 关于 有关 について に関する"},
    {Words::article, "a an one some markdown ein eine einer einem einen une un una um uma 一个 一張 一张"},

    {Words::json, "json"},
    {Words::table, "table tables tabular tabelle tabellen tabellarisch* tableau tableaux tabla tablas tabella tabelle tabela tabelas таблиц* 表格 表形式 表に 表で 一覧表"},
    {Words::code_noun, "function functions code regex algorithm snippet subroutine funktion quellcode algorithmus code_snippet fonction code algorithme "
                       "funcion codigo algoritmo funzione codice funcao funcoes функци* код алгоритм* 函数 代码 算法 関数 コード アルゴリズム"},
    {Words::weak_noun, "script scripts skript скрипт* 脚本 スクリプト program programs class method module app page library component programm klasse methode programme classe programa clase metodo programma "
                       "программ* класс* метод* 程序 类 プログラム クラス"},
    {Words::query_noun, "query queries statement abfrage abfragen requete requetes consulta consultas interrogazione 查询 クエリ запрос*"},

    {Words::greeting, "hi hello hey hiya yo howdy good_morning good_evening good_afternoon good_night morning thanks thank_you thx ty cheers bye goodbye see_you ok okay cool nice great "
                      "there you very_much so_much a_lot much again everyone all how_are_you how_s_it_going what_s_up please welcome perfect "
                      "hallo guten_tag guten_morgen guten_abend gute_nacht servus moin gruss_gott danke vielen_dank danke_schon tschuss bis_bald wie_geht_es_dir wie_geht_s "
                      "bonjour bonsoir salut coucou merci merci_beaucoup beaucoup au_revoir ca_va comment_ca_va hola buenos_dias buenas_tardes buenas_noches gracias muchas_gracias "
                      "adios hasta_luego que_tal como_estas ciao salve buongiorno buonasera grazie grazie_mille mille arrivederci come_stai come_va "
                      "ola bom_dia boa_tarde boa_noite obrigado obrigada muito tchau tudo_bem привет здравствуй здравствуйте добрый_день доброе_утро добрый_вечер спасибо большое пока до_свидания как_дела "
                      "你好 您好 你好吗 早上好 晚上好 谢谢 谢谢你 非常感谢 再见 嗨 大家好 こんにちは こんばんは おはよう おはようございます ありがとう ありがとうございます どうも さようなら はじめまして"},
    {Words::retrieve, "what which where who whom whose when find extract look_up quote name tell_me locate identify is_there was welche welcher welches wo wer wann wie_heisst finde nenne "
                      "quel quelle quels quelles ou qui quand trouve trouvez cherche que cual cuales donde quien cuando encuentra busca quale quali dove dov_e chi quando trova cerca "
                      "qual quais onde quem encontre procure какой какая какое какие какова где кто когда найди найдите что 什么 哪 谁 何时 多少 找出 找到 何 どこ 誰 いつ どの どれ 見つけ 探し"},
    {Words::whole_text, "summarize summarise summary rewrite translate review proofread analyze analyse edit paraphrase continue implement write fasse zusammenfassung zusammen ubersetze analysiere schreibe "
                        "resume resumez traduis analyse analysez ecris resume resumir resumen traduce analiza escribe riassumi traduci analizza scrivi resuma traduza analise escreva "
                        "резюмируй перескажи переведи проанализируй напиши сократи 总结 概括 翻译 分析 改写 写 要約 まとめ 翻訳 分析"},
    {Words::fact_name, "who_is who_was who_discovered who_founded where_is how_old_is wer_ist wer_war wo_ist wo_liegt wie_alt_ist wer_entdeckte qui_est qui_etait ou_est ou_se_trouve quel_age_a quand_est_ne quand_est_nee "
                       "quien_es quien_fue donde_esta cuando_nacio cuantos_anos_tiene chi_e chi_era dove_si_trova dov_e quando_e_nato quando_e_nata quanti_anni_ha quem_e quem_foi onde_fica quando_nasceu "
                       "кто_такой кто_такая где_находится когда_родился когда_родилась сколько_лет"},
    {Words::fact_when, "when_was wann_wurde"},
    {Words::fact_done, "born founded built invented discovered written published released completed geboren gegrundet gebaut erbaut erfunden entdeckt geschrieben veroffentlicht"},
    {Words::fact_who, "who_wrote who_painted who_composed who_invented wer_schrieb wer_malte wer_komponierte wer_erfand qui_a_ecrit qui_a_peint qui_a_compose qui_a_invente quien_escribio quien_pinto quien_compuso quien_invento "
                      "chi_ha_scritto chi_ha_dipinto chi_ha_composto chi_ha_inventato quem_escreveu quem_pintou quem_compos quem_inventou кто_написал кто_сочинил кто_изобрел"},
    {Words::fact_of, "what_is_the_capital_of what_s_the_capital_of was_ist_die_hauptstadt_von was_ist_die_hauptstadt wie_heisst_die_hauptstadt quelle_est_la_capitale cual_es_la_capital qual_e_la_capitale qual_e_a_capital "
                     "какая_столица столица какой_город_столица"},
    {Words::fact_cjk, "首都是哪 首都在哪 首都是什么 首都はどこ 首都は何 谁写了 谁发明了 是谁写的 是谁发明的 誰が書いた 誰が書き 誰が発明"},
    {Words::name_part, "the of and de d du des la le les l el los las von van di del da do dos y"},
    {Words::hard, "or than more most less least better worse right wrong correct it my your his her our their country largest biggest smallest oder mehr moins land pays pais paese страна why how explain prove proof derive compare difference analyze analyse evaluate solve step steps many much probability puzzle riddle design plan debug implement best should would if calculate compute reason "
                  "warum wieso wie erklare beweise vergleiche unterschied viele lose berechne schritt wenn ratsel pourquoi comment explique prouve demontre compare combien resous calcule si etape enigme "
                  "por_que como explica demuestra compara cuantos cuantas resuelve calcula si paso perche come spiega dimostra confronta quanti quante risolvi se passo "
                  "porque explique prove compare quantos quantas resolva se почему как объясни докажи сравни сколько реши если вычисли шаг 为什么 怎么 如何 解释 证明 比较 多少 几 计算 如果 步 なぜ どうして どう 最 国家 の国 一番 説明 証明 比較 いくつ 計算し"},
    {Words::calculate, "what_is what_s calculate compute how_much_is was_ist wieviel_ist wie_viel_ist berechne combien_font combien_fait calcule cuanto_es calcula quanto_fa calcola quanto_e calcule "
                       "сколько_будет вычисли посчитай 计算 等于多少 等于几 是多少 は 計算して いくつ equals"},
    {Words::operators, "plus minus times x divided_by mal geteilt_durch fois divise_par mas menos por entre piu meno per diviso mais vezes dividido_por плюс минус умножить_на разделить_на 加 减 乘 除以 足す 引く かける 割る"},
    {Words::polite, "please kindly now then and can could would will you i d like me us the bitte kannst konntest du mir uns und dann s il te vous plait peux pouvez tu "
                                "por favor puedes podrias me y luego per favore puoi potresti mi e poi pode poderia пожалуйста можешь можете мне и затем 请 請 帮我 然后"},
};

constexpr NameEntry kProgramming[] = {
    {"python", "python python3"}, {"javascript", "javascript js node_js"}, {"typescript", "typescript"}, {"java", "java"}, {"cpp", "c++ cpp"},
    {"csharp", "c#"}, {"go", "golang !go"}, {"rust", "rust"}, {"ruby", "ruby"}, {"php", "php"}, {"swift", "swift"}, {"kotlin", "kotlin"},
    {"scala", "scala"}, {"haskell", "haskell"}, {"perl", "perl"}, {"lua", "lua"}, {"bash", "bash shell zsh"}, {"powershell", "powershell"},
    {"html", "html"}, {"css", "css"}, {"matlab", "matlab"}, {"julia", "!julia"}, {"dart", "!dart"}, {"elixir", "!elixir"}, {"ocaml", "ocaml"},
    {"zig", "!zig"}, {"fortran", "fortran"}, {"cobol", "cobol"}, {"c", "!c"}, {"r", "!r"},
    {"sql", "sql mysql postgresql postgres sqlite t_sql"},
};
constexpr NameEntry kNatural[] = {
    {"English", "english englisch englische englischen anglais anglaise ingles inglesa inglese английск* 英语 英文 英語"},
    {"German", "german deutsch deutsche deutschen allemand allemande aleman tedesco alemao немецк* 德语 德文 ドイツ語"},
    {"French", "french franzosisch franzosische francais francaise frances francese французск* 法语 法文 フランス語"},
    {"Spanish", "spanish spanisch spanische espagnol espagnole espanol castellano spagnolo espanhol испанск* 西班牙语 西班牙文 スペイン語"},
    {"Italian", "italian italienisch italienische italien italienne italiano итальянск* 意大利语 意大利文 イタリア語"},
    {"Portuguese", "portuguese portugiesisch portugais portugues portoghese португальск* 葡萄牙语 ポルトガル語"},
    {"Chinese", "chinese mandarin chinesisch chinesische chinois chinoise chino cinese chines китайск* 中文 汉语 漢語 中国語"},
    {"Japanese", "japanese japanisch japanische japonais japonaise japones giapponese японск* 日语 日文 日本語"},
    {"Russian", "russian russisch russische russe ruso russo русск* 俄语 俄文 ロシア語"},
    {"Korean", "korean koreanisch coreen coreano корейск* 韩语 韓国語"},
    {"Arabic", "arabic arabisch arabe arabo арабск* 阿拉伯语 アラビア語"},
    {"Dutch", "dutch niederlandisch neerlandais holandes olandese голландск* 荷兰语 オランダ語"},
    {"Polish", "polish polnisch polonais polaco polacco polones польск* 波兰语"},
    {"Turkish", "turkish turkisch turc turco турецк* 土耳其语 トルコ語"},
    {"Hindi", "hindi хинди 印地语 ヒンディー語"},
    {"Latin", "latin latein latino латын* латинск* 拉丁语 ラテン語"},
};
constexpr const char* kNumbers[] = {
    "two zwei deux dos due dois duas два две 两 二 2つ 二つ", "three drei trois tres tre три 三 三つ", "four vier quatre cuatro quattro quatro четыре 四 四つ",
    "five funf cinq cinco cinque пять 五 五つ", "six sechs seis sei шесть 六 六つ", "seven sieben sept siete sette sete семь 七 七つ",
    "eight acht huit ocho otto oito восемь 八 八つ", "nine neun neuf nueve nove девять 九 九つ", "ten zehn dix diez dieci dez десять 十",
};
// clang-format on

}  // namespace

std::span<const WordEntry> word_entries() {
  return kWords;
}
std::span<const NameEntry> programming_entries() {
  return kProgramming;
}
std::span<const NameEntry> natural_entries() {
  return kNatural;
}
std::span<const char* const> number_entries() {
  return kNumbers;
}

}  // namespace anabranch::text
