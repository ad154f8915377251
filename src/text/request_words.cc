#include "text/request_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

#include "text/utf8.h"
#include "text/white_space.h"

namespace anabranch::text {
namespace {

constexpr size_t kLongMessage = 2000, kKeptEnd = 700, kLongQuestion = 300;  // bytes
constexpr size_t kReadEnd = 32 << 10;  // of a message that is longer than twice that
constexpr size_t kLongestQuote = 400;

struct Entry {
  Words words;
  const char* text;  // separated by spaces; '_' joins a phrase; '*' at the end: any ending
};

// clang-format off
constexpr Entry kTable[] = {
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

    {Words::list_verb, "list name give suggest tell recommend enumerate write generate provide mention find show create share come_up_with what_are"},
    {Words::list_verb, "nenne nenn liste gib zahle schlage empfiehl schreibe cite citez liste listez donne donnez propose proposez enumere nomme "
                       "enumera lista nombra dame menciona sugiere cita recomienda elenca nomina dammi suggerisci proponi consiglia elenque liste cite sugira mencione de_me "
                       "назови назовите перечисли перечислите дай дайте предложи предложите приведи приведите 列出 列举 给我 给出 举出 举 写出 推荐 说出"},
    {Words::list_after, "挙げて 教えて あげて 出して 列挙して リストアップ 提案して nennen auflisten aufzahlen"},
    {Words::counter, "个 個 种 種 条 條 项 項 点 點 つ 件 本 选 選 部 家 位 名 冊"},
    {Words::item_unit, "word words sentence sentences line lines paragraph paragraphs page pages character characters letter letters minute minutes hour hours "
                       "day days second seconds percent degrees dollars euros times years months weeks people persons star stars point points step_by_step more "
                       "worter wortern worte satz satze satzen zeilen zeichen absatze seiten minuten stunden tage tagen jahre mal prozent "
                       "mots phrase phrases lignes paragraphes caracteres minutes heures jours ans fois palabras frase frases oracion oraciones lineas parrafos minutos horas dias anos veces "
                       "parole righe paragrafi minuti ore giorni anni volte palavras linhas paragrafos vezes слов слова предложени* строк* абзац* минут* час* дн* лет раз 字 句 句话 行 段 分钟 天 次 文字 文 分 日"},

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
    {Words::fact, "what_is what_s who_is who_was who_wrote who_painted who_invented when_was when_is where_is what_time which_country capital_of "
                  "was_ist wer_ist wer_war wo_ist wo_liegt wann_war wie_heisst hauptstadt quelle_est quel_est qui_est qui_a ou_est ou_se_trouve quand capitale "
                  "cual_es quien_es quien_fue quien_escribio donde_esta cuando capital qual_e chi_e chi_ha dove_si_trova dov_e quando qual_e_a quem_e quem_foi quem_escreveu onde_fica "
                  "кто_такой кто_написал кто какая_столица столица где_находится когда 是谁 谁是 首都 在哪 是哪 首都は 誰ですか どこですか いつですか"},
    {Words::hard, "why how explain prove proof derive compare difference analyze analyse evaluate solve step steps many much probability puzzle riddle design plan debug implement best should would if calculate compute reason "
                  "warum wieso wie erklare beweise vergleiche unterschied viele lose berechne schritt wenn ratsel pourquoi comment explique prouve demontre compare combien resous calcule si etape enigme "
                  "por_que como explica demuestra compara cuantos cuantas resuelve calcula si paso perche come spiega dimostra confronta quanti quante risolvi se passo "
                  "porque explique prove compare quantos quantas resolva se почему как объясни докажи сравни сколько реши если вычисли шаг 为什么 怎么 如何 解释 证明 比较 多少 几 计算 如果 步 なぜ どうして どう 説明 証明 比較 いくつ 計算 もし"},
    {Words::calculate, "what_is what_s calculate compute how_much_is was_ist wieviel_ist wie_viel_ist berechne combien_font combien_fait calcule cuanto_es calcula quanto_fa calcola quanto_e calcule "
                       "сколько_будет вычисли посчитай 计算 等于多少 等于几 是多少 は 計算して いくつ equals"},
    {Words::operators, "plus minus times x divided_by mal geteilt_durch fois divise_par mas menos por entre piu meno per diviso mais vezes dividido_por плюс минус умножить_на разделить_на 加 减 乘 除以 足す 引く かける 割る"},
    {Words::polite, "please kindly now then and can could would will you i d like me us the bitte kannst konntest du mir uns und dann s il te vous plait peux pouvez tu "
                                "por favor puedes podrias me y luego per favore puoi potresti mi e poi pode poderia пожалуйста можешь можете мне и затем 请 請 帮我 然后"},
};

// The fence's name, then names as written; '!' : also a word or letter of its own.
constexpr std::pair<const char*, const char*> kProgramming[] = {
    {"python", "python python3"}, {"javascript", "javascript js node_js"}, {"typescript", "typescript"}, {"java", "java"}, {"cpp", "c++ cpp"},
    {"csharp", "c#"}, {"go", "golang !go"}, {"rust", "rust"}, {"ruby", "ruby"}, {"php", "php"}, {"swift", "swift"}, {"kotlin", "kotlin"},
    {"scala", "scala"}, {"haskell", "haskell"}, {"perl", "perl"}, {"lua", "lua"}, {"bash", "bash shell zsh"}, {"powershell", "powershell"},
    {"html", "html"}, {"css", "css"}, {"matlab", "matlab"}, {"julia", "!julia"}, {"dart", "!dart"}, {"elixir", "!elixir"}, {"ocaml", "ocaml"},
    {"zig", "!zig"}, {"fortran", "fortran"}, {"cobol", "cobol"}, {"c", "!c"}, {"r", "!r"},
    {"sql", "sql mysql postgresql postgres sqlite t_sql"},
};
constexpr std::pair<const char*, const char*> kNatural[] = {
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
// [number - 2]
constexpr const char* kNumbers[] = {
    "two zwei deux dos due dois duas два две 两 二 2つ 二つ", "three drei trois tres tre три 三 三つ", "four vier quatre cuatro quattro quatro четыре 四 四つ",
    "five funf cinq cinco cinque пять 五 五つ", "six sechs seis sei шесть 六 六つ", "seven sieben sept siete sette sete семь 七 七つ",
    "eight acht huit ocho otto oito восемь 八 八つ", "nine neun neuf nueve nove девять 九 九つ", "ten zehn dix diez dieci dez десять 十",
};
// clang-format on

bool is_cjk(char32_t c) {
  return (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xAC00 && c < 0xD7B0) || (c >= 0xF900 && c < 0xFB00) ||
         (c >= 0x20000 && c < 0x32000);
}

// Small letters; Latin ones lose their accents, so that those who leave them out are understood.
void append_folded(std::string& out, char32_t c) {
  if (is_mark(c) && !is_cjk(c)) return;
  if (c < 0x250 && c >= 0x80) {
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts, 8,
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK),
        &boundary);
    for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(n, 8); i++)
      append_utf8(out, static_cast<char32_t>(parts[i]));
    return;
  }
  c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  append_utf8(out, c == 0x451 ? 0x435 : c);  // Russian e with and without dots
}

using Phrases = std::vector<std::string>;

// As they are found in a sentence: with spaces where a word must begin or end.
Phrases phrases_of(std::string_view list) {
  Phrases phrases;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    std::string item(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (item.empty()) continue;
    const bool any_ending = item.back() == '*';
    if (any_ending) item.pop_back();
    std::replace(item.begin(), item.end(), '_', ' ');
    std::string phrase = fold(item);
    const bool cjk = is_cjk(decode_utf8(phrase, 1).value);
    if (any_ending || cjk) phrase.pop_back();
    if (cjk) phrase.erase(0, 1);
    phrases.push_back(std::move(phrase));
  }
  std::sort(phrases.begin(), phrases.end());
  return phrases;
}

const Phrases& phrases(Words words) {
  static const auto all = [] {
    std::array<Phrases, static_cast<size_t>(Words::count_)> sets;
    for (const Entry& entry : kTable) {
      auto& set = sets[static_cast<size_t>(entry.words)];
      for (auto& phrase : phrases_of(entry.text)) set.push_back(std::move(phrase));
    }
    return sets;
  }();
  return all[static_cast<size_t>(words)];
}

std::optional<Hit> find_any(const Sentence& sentence, const Phrases& set, size_t from) {
  std::optional<Hit> best;
  for (const std::string& phrase : set) {
    const size_t at = sentence.find(phrase, from);
    if (at == std::string::npos) continue;
    // The space after a word begins the next one.
    const Hit hit{at, at + phrase.size() - (phrase.back() == ' ' ? 1 : 0)};
    if (!best || hit.begin < best->begin || (hit.begin == best->begin && hit.end > best->end)) best = hit;
  }
  return best;
}

size_t skip_words(const Sentence& sentence, size_t place, int count) {
  for (; count > 0 && place + 1 < sentence.size(); count--)
    place = std::min(sentence.find(' ', place + 1), sentence.size());
  return place;
}
size_t skip_back(const Sentence& sentence, size_t place, int count) {
  for (; count > 0 && place > 0; count--) {
    const size_t space = sentence.rfind(' ', place - 1);
    place = space == std::string::npos ? 0 : space;
  }
  return place;
}

struct Name {
  std::string_view name;
  Phrases phrases, plain;
};

std::vector<Name> names_of(std::span<const std::pair<const char*, const char*>> table) {
  std::vector<Name> names;
  for (const auto& [name, list] : table) {
    std::string certain, plain;
    std::istringstream items(list);
    for (std::string item; items >> item;)
      (item[0] == '!' ? plain : certain) += item.substr(item[0] == '!') + " ";
    names.push_back({name, phrases_of(certain), phrases_of(plain)});
  }
  return names;
}

std::vector<Language> find_languages(const Sentence& sentence, const std::vector<Name>& names) {
  std::vector<Language> languages;
  for (const Name& name : names)
    for (const bool plain : {false, true}) {
      const Phrases& set = plain ? name.plain : name.phrases;
      for (auto hit = find_any(sentence, set, 0); hit; hit = find_any(sentence, set, hit->end))
        languages.push_back({name.name, *hit, plain});
    }
  std::sort(languages.begin(), languages.end(),
            [](const Language& a, const Language& b) { return a.hit.begin < b.hit.begin; });
  return languages;
}

// The number that a word is, or that a run of Chinese or Japanese characters has in front of a counter.
Count count_at(const Sentence& sentence, Hit word) {
  const std::string_view text = std::string_view(sentence).substr(word.begin + 1, word.end - word.begin - 1);
  if (text.size() <= 3 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return {std::stoi(std::string(text)), word};
  static const auto numbers = [] {
    std::vector<Phrases> out;
    for (const char* list : kNumbers) out.push_back(phrases_of(list));
    return out;
  }();
  for (size_t i = 0; i < numbers.size(); i++) {
    const auto hit = find_any(sentence, numbers[i], word.begin);
    if (!hit || hit->begin >= word.end) continue;
    if (sentence[hit->begin] == ' ') return {static_cast<int>(i) + 2, *hit};
    const auto counter = find(sentence, Words::counter, hit->begin);
    if (counter && counter->begin <= hit->end) return {static_cast<int>(i) + 2, *hit};
  }
  return {};
}

struct Quote {
  std::string_view open, close;
};
constexpr Quote kQuotes[] = {{"\"", "\""},
                             {"\xE2\x80\x9C", "\xE2\x80\x9D"},
                             {"\xE2\x80\x9E", "\xE2\x80\x9C"},
                             {"\xC2\xAB", "\xC2\xBB"},
                             {"\xE3\x80\x8C", "\xE3\x80\x8D"},
                             {"`", "`"}};

// Leaves out fenced blocks and quoted text.
std::string without_quotes(std::string_view text, Request& request) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 3) == "```") {
      const size_t line = std::min(text.find('\n', i), text.size());
      if (!request.has_code)
        request.fence = std::string(text.substr(i + 3, std::min<size_t>(line - i - 3, 20)));
      request.has_code = true;
      const size_t end = text.find("```", line);
      i = end == std::string_view::npos ? text.size() : end + 3;
      out += '\n';
      continue;
    }
    bool quoted = false;
    for (const auto& [open, close] : kQuotes) {
      if (text.substr(i, open.size()) != open) continue;
      const std::string_view within = text.substr(i + open.size(), kLongestQuote);
      const size_t end = within.find(close);
      if (end == std::string_view::npos || end > within.find('\n')) continue;
      i += open.size() + end + close.size();
      out += " quoted ";
      quoted = true;
      break;
    }
    if (!quoted) out += text[i++];
  }
  return out;
}

std::string_view cut_front(std::string_view text, size_t bytes) {  // whole characters
  while (bytes < text.size() && (static_cast<uint8_t>(text[bytes]) & 0xC0) == 0x80) bytes++;
  return text.substr(0, bytes);
}
std::string_view cut_back(std::string_view text, size_t bytes) {
  size_t from = text.size() - std::min(bytes, text.size());
  while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) from++;
  return text.substr(from);
}

bool ends_sentence(std::string_view text, size_t i, const CodePoint& c) {
  switch (c.value) {
    case U'\n':
    case U'!':
    case U'?':
    case U';':
    case U':':
    case 0x3002:
    case 0xFF01:
    case 0xFF1F:
    case 0xFF1B:
    case 0xFF1A:
      return true;
    case U'.':
      return i + 1 >= text.size() || text[i + 1] == ' ' || text[i + 1] == '\n';
    default:
      return false;
  }
}

void add_sentences(std::string_view text, std::vector<Sentence>& out) {
  size_t start = 0;
  for (size_t i = 0; i <= text.size();) {
    const CodePoint c = i < text.size() ? decode_utf8(text, i) : CodePoint{U'\n', 1, true};
    if (i == text.size() || ends_sentence(text, i, c)) {
      Sentence sentence = fold(text.substr(start, i - start));
      if (sentence.size() > 1) out.push_back(std::move(sentence));
      start = i + c.length;
    }
    i += c.length;
  }
}

// The last paragraph, or the first if only that is short.
std::string_view asking_paragraph(std::string_view text) {
  text = trimmed(text);
  const size_t last = text.rfind("\n\n"), first = text.find("\n\n");
  if (last == std::string_view::npos) return text;
  const std::string_view end = trimmed(text.substr(last)), begin = trimmed(text.substr(0, first));
  return end.size() > kLongQuestion && begin.size() <= kLongQuestion ? begin : end;
}

}  // namespace

Sentence fold(std::string_view text) {
  Sentence out = " ";
  bool cjk = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    i += c.length;
    const bool inside = out.back() != ' ';
    if (is_word(c.value) && c.value != '_') {
      const bool now = is_cjk(c.value);
      if (inside && now != cjk) out += ' ';
      cjk = now;
      append_folded(out, c.value);
    } else if (inside && !cjk && (c.value == '+' || c.value == '#')) {
      out += static_cast<char>(c.value);  // c++, c#
    } else if (inside && !is_mark(c.value)) {
      out += ' ';
    }
  }
  if (out.back() != ' ') out += ' ';
  return out;
}

Request read_request(std::string_view message) {
  Request request;
  std::string ends;
  if (message.size() > 2 * kReadEnd) {
    ends = std::string(cut_front(message, kReadEnd)) + "\n" + std::string(cut_back(message, kReadEnd));
    message = ends;
  }
  const std::string text = without_quotes(message, request);
  request.long_text = text.size() > kLongMessage;
  add_sentences(cut_back(asking_paragraph(text), kLongMessage), request.question);
  if (!request.long_text) {
    add_sentences(text, request.sentences);
  } else {
    add_sentences(cut_front(text, kKeptEnd), request.sentences);
    add_sentences(cut_back(text, kKeptEnd), request.sentences);
  }
  return request;
}

std::optional<Hit> find(const Sentence& sentence, Words words, size_t from) {
  return find_any(sentence, phrases(words), from);
}

std::vector<Hit> find_all(const Sentence& sentence, Words words) {
  std::vector<Hit> hits;
  for (auto hit = find(sentence, words); hit; hit = find(sentence, words, hit->end)) hits.push_back(*hit);
  return hits;
}

bool opens_with(const Sentence& sentence, Words words) {
  size_t at = 0;
  for (int skipped = 0; skipped < 6; skipped++) {
    const auto hit = find(sentence, words, at);
    if (hit && hit->begin <= at + (sentence[hit->begin] != ' ')) return true;
    const auto word = find(sentence, Words::polite, at);
    if (!word || word->begin > at + (sentence[word->begin] != ' ')) return false;
    at = word->end;
  }
  return false;
}

bool before(const Sentence& sentence, size_t place, int count, Words words) {
  const size_t from = skip_back(sentence, place, count);
  return find(sentence.substr(from, place - from + (sentence[place] == ' ')), words).has_value();
}

bool after(const Sentence& sentence, size_t place, int count, Words words) {
  const size_t to = skip_words(sentence, place, count);
  return find(sentence.substr(place, to - place + 1), words).has_value();
}

int count_words(const Sentence& sentence) {
  int words = 0, halves = 0;
  for (size_t i = 1; i < sentence.size();) {
    const CodePoint c = decode_utf8(sentence, i);
    if (is_cjk(c.value))
      halves++;
    else if (c.value == ' ' && !is_cjk(decode_utf8(sentence, sentence.rfind(' ', i - 1) + 1).value))
      words++;
    i += c.length;
  }
  return words + (halves + 1) / 2;
}

bool consists_of(const Sentence& sentence, std::initializer_list<Words> sets, bool numbers) {
  size_t at = 0;
  while (at + 1 < sentence.size()) {
    size_t next = at;
    for (const Words words : sets) {
      const auto hit = find(sentence, words, at);
      if (hit && (hit->begin == at || (hit->begin == at + 1 && sentence[at] == ' ')))
        next = std::max(next, hit->end);
    }
    if (next == at && numbers) {
      size_t end = at + (sentence[at] == ' ');
      while (end < sentence.size() && sentence[end] >= '0' && sentence[end] <= '9') end++;
      if (end > at + 1 && sentence[end] == ' ') next = end;
    }
    if (next == at) return false;
    at = next;
  }
  return true;
}

std::optional<Count> find_count(const Sentence& sentence, size_t from, int within_words) {
  const size_t limit = skip_words(sentence, from, within_words);
  for (size_t begin = from; begin < limit;) {
    const size_t end = std::min(sentence.find(' ', begin + 1), sentence.size());
    const Count count = count_at(sentence, {begin, end});
    if (count.number >= 2) return count;
    begin = end;
  }
  return std::nullopt;
}

std::vector<int> numbers_in(const Sentence& sentence) {
  std::vector<int> numbers;
  for (size_t i = 0; i < sentence.size(); i++) {
    if (sentence[i] < '0' || sentence[i] > '9') continue;
    int number = 0;
    for (; i < sentence.size() && sentence[i] >= '0' && sentence[i] <= '9'; i++)
      number = std::min(number * 10 + (sentence[i] - '0'), 1000000);
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<Language> programming_languages(const Sentence& sentence) {
  static const auto names = names_of(kProgramming);
  return find_languages(sentence, names);
}
std::vector<Language> natural_languages(const Sentence& sentence) {
  static const auto names = names_of(kNatural);
  return find_languages(sentence, names);
}

}  // namespace anabranch::text
