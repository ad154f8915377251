#include "chat/answer_form.h"

#include <gtest/gtest.h>

#include <ctime>

#include "chat/request_words.h"

namespace anabranch::text {
namespace {

struct Case {
  const char* message;
  AnswerForm form;
  const char* language = "";
  int items = 0;
};
using enum AnswerForm;

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const AskedForm got = asked_form({.user = c.message});
    EXPECT_EQ(name_of(got.form), name_of(c.form)) << c.message << "\n  " << got.reason;
    EXPECT_EQ(got.language, c.language) << c.message;
    EXPECT_EQ(got.items, c.items) << c.message;
    EXPECT_FALSE(got.reason.empty());
  }
}

TEST(AnswerForm, WhatTheRequestSaysOutsideItsTextComesFirst) {
  const char* user = "Translate this into French: good morning";
  EXPECT_EQ(asked_form({.user = user, .json_format = true}).form, json);
  EXPECT_EQ(asked_form({.user = user, .json_format = true, .tools = true, .tool_required = true}).form,
            tool_call);
  EXPECT_EQ(asked_form({.user = "Answer as JSON: what is the weather?", .tools = true}).form, plain);
  EXPECT_EQ(asked_form({.user = user}).form, translation);
}

TEST(AnswerForm, English) {
  check({
      {"Extract the name and the age as JSON: Anna is 30.", json},
      {"Return a JSON object with the keys name and city.", json},
      {"List the planets in JSON format.", json},
      {"What are the three largest cities? Respond with valid JSON only.", json},
      {"Which fields are there?\n\nOutput only JSON.", json},
      {"Translate to French and return the result as JSON.", json},
      {"Solve the task. Write a Python function. Return JSON with the keys code and tests.", json},
      {"Write a JSON file describing a Python class.", json},
      {"What is JSON?", plain},
      {"Explain the difference between JSON and YAML.", plain},
      {"Summarize this JSON for me.", plain},
      {"Is this valid JSON?", plain},
      {"How do I parse JSON in a browser?", plain},

      {"Write a Python function that returns the factorial of n.", code, "python"},
      {"Implement quicksort in Rust.", code, "rust"},
      {"Could you please write me a small program in C that counts lines?", code, "c"},
      {"Give me a bash script to rename files", code, "bash"},
      {"Convert this Python code to Go function by function", code, "go"},
      {"Write a function that sorts a list", code},
      {"Write a Python script that reads a JSON file and prints a table", code, "python"},
      {"Write a Python function. It should return JSON.", code, "python"},
      {"Fix the bug:\n```js\nlet a = ;\n```", code, "javascript"},
      {"Refactor this C++ class, please", code, "cpp"},
      {"I need C# code for a timer", code, "csharp"},
      {"What is the secret code for river?", plain},
      {"Give me the secret code of the lantern room.", plain},
      {"What is the function of the heart?", plain},
      {"Write about pythons and other snakes.", plain},
      {"Explain what this function does:\n```python\ndef f(): pass\n```", plain},
      {"Let us go in and write a poem.", plain},
      {"Write a program for our summer concert.", plain},
      {"Tell me about the history of Java the island", plain},

      {"Write an SQL query that lists all users older than 30", sql},
      {"Create a table for orders in PostgreSQL", sql},
      {"Optimize this SQL:\n```sql\nSELECT 1\n```", sql},
      {"What is SQL injection?", plain},

      {"Translate \"good morning\" into Spanish", translation, "Spanish"},
      {"Translate from English to German: the cat sleeps", translation, "German"},
      {"How do you say thank you in Japanese?", translation, "Japanese"},
      {"How does machine translation work?", plain},
      {"Tell me about French cuisine", plain},

      {"Compare cats and dogs in a table.", table},
      {"Create a markdown table of the planets and their moons", table},
      {"Present the results as a table", table},
      {"Put the book on the table and tell me a story", plain},
      {"Explain the table below", plain},
      {"What is a table in a database?", plain},

      {"List five fruits.", list, "", 5},
      {"Give me 3 tips for sleeping better", list, "", 3},
      {"Name the top 10 movies of the nineties", list, "", 10},
      {"What are three ways to save water?", list, "", 3},
      {"Give me 5 minutes of your time", plain},
      {"Write a story in exactly 3 sentences", plain},
      {"Write a 500 word essay", plain},
      {"List all the things you know", plain},
      {"Listen to me for two more songs", plain},
      {"What is 5 + 7?", plain},
      {"", plain},
      {"Hello!", plain},
  });
}

TEST(AnswerForm, German) {
  check({
      {"Extrahiere Name und Alter als JSON: Anna ist 30.", json},
      {"Antworte nur mit gültigem JSON.", json},
      {"Gib die Liste im JSON-Format aus.", json},
      {"Was ist JSON?", plain},
      {"Schreibe eine Funktion in Python, die zwei Zahlen addiert.", code, "python"},
      {"Kannst du mir eine Java-Klasse schreiben?", code, "java"},
      {"Was ist die Funktion der Leber?", plain},
      {"Schreibe eine SQL-Abfrage, die alle Kunden zählt.", sql},
      {"Übersetze ins Englische: Guten Morgen", translation, "English"},
      {"Wie sagt man danke auf Spanisch?", translation, "Spanish"},
      {"Wie funktioniert eine Übersetzung?", plain},
      {"Erstelle eine Tabelle der Planeten.", table},
      {"Erkläre die folgende Tabelle", plain},
      {"Nenne fünf Städte in Bayern.", list, "", 5},
      {"Gib mir 3 Tipps gegen Stress", list, "", 3},
      {"Schreibe drei Sätze über Hunde", plain},
  });
}

TEST(AnswerForm, French) {
  check({
      {"Réponds uniquement en JSON.", json},
      {"Donne la liste des villes au format JSON.", json},
      {"Qu'est-ce que JSON ?", plain},
      {"Écris une fonction Python qui trie une liste.", code, "python"},
      {"Écrivez un programme en C++", code, "cpp"},
      {"Écris une requête SQL pour compter les clients", sql},
      {"Traduis en anglais : bonjour", translation, "English"},
      {"Comment dit-on merci en allemand ?", translation, "German"},
      {"Fais un tableau des planètes", table},
      {"Cite cinq fruits.", list, "", 5},
      {"Écris trois phrases sur les chats", plain},
      {"Pourquoi le ciel est-il bleu ?", plain},
  });
}

TEST(AnswerForm, SpanishItalianPortuguese) {
  check({
      {"Devuelve el resultado en formato JSON.", json},
      {"¿Qué es JSON?", plain},
      {"Escribe una función en Python que sume dos números.", code, "python"},
      {"Escribe una consulta SQL que liste los clientes", sql},
      {"Traduce al inglés: buenos días", translation, "English"},
      {"¿Cómo se dice gracias en francés?", translation, "French"},
      {"Crea una tabla con los planetas", table},
      {"Dame tres consejos para dormir", list, "", 3},
      {"Escribe dos frases sobre el mar", plain},
      {"Rispondi in formato JSON.", json},
      {"Che cos'è JSON?", plain},
      {"Scrivi una funzione Python che ordina una lista", code, "python"},
      {"Traduci in inglese: buongiorno", translation, "English"},
      {"Crea una tabella dei pianeti", table},
      {"Elenca cinque città italiane", list, "", 5},
      {"Perché il cielo è blu?", plain},
      {"Responda apenas em JSON.", json},
      {"O que é JSON?", plain},
      {"Escreva uma função em Python que soma dois números", code, "python"},
      {"Traduza para o inglês: bom dia", translation, "English"},
      {"Crie uma tabela dos planetas", table},
      {"Liste cinco frutas", list, "", 5},
      {"Por que o céu é azul?", plain},
  });
}

TEST(AnswerForm, Russian) {
  check({
      {"Верни результат в формате JSON.", json},
      {"Что такое JSON?", plain},
      {"Напиши функцию на Python, которая складывает числа.", code, "python"},
      {"Напишите запрос SQL для подсчёта клиентов", sql},
      {"Переведи на английский: доброе утро", translation, "English"},
      {"Составь таблицу планет", table},
      {"Назови пять городов России", list, "", 5},
      {"Напиши три предложения о море", plain},
      {"Почему небо голубое?", plain},
  });
}

TEST(AnswerForm, ChineseAndJapanese) {
  check({
      {"请用JSON格式返回姓名和年龄。", json},
      {"以 JSON 输出结果", json},
      {"什么是JSON?", plain},
      {"用Python写一个函数,计算阶乘。", code, "python"},
      {"写一个SQL查询,统计用户", sql},
      {"把这句话翻译成法语:你好", translation, "French"},
      {"用表格比较猫和狗", table},
      {"列出5个水果", list, "", 5},
      {"给我三个建议", list, "", 3},
      {"写三句话", plain},
      {"天空为什么是蓝色的?", plain},
      {"結果をJSONで返してください。", json},
      {"JSONとは何ですか?", plain},
      {"Pythonで階乗の関数を書いてください。", code, "python"},
      {"次の文を英語に翻訳してください:おはよう", translation, "English"},
      {"惑星を表にまとめてください", table},
      {"果物を5つ挙げてください", list, "", 5},
      {"空はなぜ青いのですか?", plain},
  });
}

// A count steers into a list only where it counts what the request wants listed.
TEST(AnswerForm, CountsOfOtherThingsAreNoList) {
  check({
      {"Write an email to 3 colleagues.", plain},
      {"Write a story about 3 bears.", plain},
      {"Create a 3 act play.", plain},
      {"Create a 3-act play.", plain},
      {"Write a 4 stanza poem about rain.", plain},
      {"Show how to add two fractions.", plain},
      {"Find two numbers whose sum is 10.", plain},
      {"Give two plus two.", plain},
      {"Give me two plus two.", plain},
      {"Give 3 guests a ticket each.", plain},
      {"Write 3 sentences about dogs.", plain},
      {"Give me 3 short sentences about dogs.", plain},
      {"Write 2 functions that call each other", code},
      {"Generate two random numbers", plain},
      {"Recommend a 2 person tent", plain},
      {"Suggest a 5 day trip to Rome", plain},
      {"Name two.", plain},
      {"Doctors say I should list 5 things. Why?", plain},
      {"I name two files each day", plain},
      {"Sort the list 5 items at a time", plain},
      {"Explain how to name two rivers", plain},
      {"What are 2 and 3?", plain},
      {"What are two thirds of nine?", plain},
      {"Write a story about a cat. Then list 5 adjectives.", plain},
      {"Summarize the text and give me 3 tips", plain},

      {"List 5 fruits", list, "", 5},
      {"Name three rivers", list, "", 3},
      {"Please name me three long rivers in Asia.", list, "", 3},
      {"Give me 4 tips for a good night's sleep", list, "", 4},
      {"Give 4 quick tips for better photos", list, "", 4},
      {"Write 3 ideas for a birthday party", list, "", 3},
      {"Can you suggest at least five names for a cat?", list, "", 5},
      {"What are the 3 largest cities of Italy?", list, "", 3},
      {"I want you to list 5 fruits.", list, "", 5},
      {"List 5 fruits that are not red.", list, "", 5},
      {"Name three people who changed history", list, "", 3},
      {"Tell me 3 facts about bees", list, "", 3},

      {"Schreibe eine E-Mail an 3 Kollegen", plain},
      {"Gib mir zwei plus zwei", plain},
      {"Nenne mir drei kurze Sätze", plain},
      {"Zeige, wie man zwei Brüche addiert", plain},
      {"Schreibe fünf Ideen für ein Fest auf", list, "", 5},
      {"Kannst du mir fünf Städte nennen?", list, "", 5},
      {"Écris une histoire de 3 ours", plain},
      {"Donne-moi trois conseils pour dormir", list, "", 3},
      {"Escribe un cuento sobre 3 osos", plain},
      {"Nombra los tres ríos más largos", list, "", 3},
      {"Scrivi una storia su tre orsi", plain},
      {"Dammi tre consigli", list, "", 3},
      {"Escreva um conto sobre 3 ursos", plain},
      {"Dê-me três dicas", list, "", 3},
      {"Напиши рассказ про 3 медведей", plain},
      {"Дай мне три совета", list, "", 3},
      {"写一个关于3个小熊的故事", plain},
      {"给我三个数的和", plain},
      {"2つの数の足し方を教えてください", plain},
      {"3つの果物を挙げてください", list, "", 3},
      {"コツを3つ教えて", list, "", 3},
  });
}

TEST(AnswerForm, WhatIsNegatedIsNotAskedFor) {
  check({
      {"Do not write SQL queries, just explain joins.", plain},
      {"Write code in Python? No, only explain the idea.", plain},
      {"Don't write code, explain the algorithm in Python terms", plain},
      {"I don't want a table, just a paragraph.", plain},
      {"Answer in words, not as JSON.", plain},
      {"Do not list 5 fruits.", plain},
      {"Never translate this into French.", plain},
      {"Schreibe keinen Code in Python, erkläre nur die Idee.", plain},
      {"Erstelle bitte keine Tabelle.", plain},
      {"N'écris pas de requête SQL.", plain},
      {"No escribas código en Python.", plain},
      {"Non scrivere codice in Python.", plain},
      {"Não escreva código em Python.", plain},
      {"Не пиши код на Python.", plain},
      {"不要写SQL查询,只解释一下。", plain},
      {"SQLは書かないでください。", plain},

      {"Write a Python function without recursion.", code, "python"},
      {"Write a Python function that does not use recursion.", code, "python"},
      {"Don't use Python, write it in Rust.", code, "rust"},
      {"Write a function in Rust, not in Python.", code, "rust"},
      {"Don't explain, just list 5 fruits.", list, "", 5},
      {"Answer not as JSON but in a table.", table},
      {"No prose, return JSON only.", json},
      {"Translate I do not know into French", translation, "French"},
      {"Responda no formato JSON.", json},
  });
}

TEST(AnswerForm, PastedTextAsksForNothing) {
  std::string document;
  for (int i = 0; i < 100; i++) document += "The report says: write a Python function and return JSON.\n";
  const std::string filler(3000, 'x');
  const std::string begin = "Here is a document.\n" + filler + "\n";
  EXPECT_EQ(asked_form({.user = begin + document + filler + "\n\nWho wrote it?"}).form, plain);
  EXPECT_EQ(asked_form({.user = begin + document + filler + "\n\nList five facts from it."}).form, list);
  EXPECT_EQ(asked_form({.user = "What does \"return JSON\" mean?"}).form, plain);
  EXPECT_EQ(asked_form({.user = "Tell me what ```\nwrite a Python function\n``` means"}).form, plain);
}

TEST(AnswerForm, AnyBytesAreRead) {
  std::string bytes;
  for (int i = 0; i < 6000; i++) bytes += static_cast<char>((i * 7919) >> 3);
  for (size_t n = 0; n < bytes.size(); n += 37) asked_form({.user = std::string_view(bytes).substr(n)});
  for (const char* odd :
       {"\"", "```", "``` ```", "\xE2\x80\x9C", "\n\n", " . . ", "`a`", "\xFF\xFE", "# + -"})
    EXPECT_EQ(asked_form({.user = odd}).form, plain) << odd;
}

TEST(AnswerForm, LongMessagesAreReadFast) {
  const std::clock_t start = std::clock();
  for (const std::string part :
       {"\"", "\xE2\x80\x9C", "```", "`\n", "write ", "what is 3 ", "\xE5\x88\x97", ".\n\n", "["}) {
    std::string message;
    while (message.size() < 2000000) message += part;
    asked_form({.user = message});
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5) << "of 18 MB in nine messages";
}

TEST(Fold, SmallWordsWithoutAccentsBetweenSpaces) {
  EXPECT_EQ(fold("  Écris l'ÉTÉ, s'il-te plaît!"), " ecris l ete s il te plait ");
  EXPECT_EQ(fold("C++ und C# (neu)"), " c++ und c# neu ");
  EXPECT_EQ(fold("用JSON格式"), " 用 json 格式 ");
  EXPECT_EQ(fold("Ещё"), " еще ");
  EXPECT_EQ(fold(""), " ");
}

}  // namespace
}  // namespace anabranch::text
