#include "chat/typed_escape.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <ctime>

#include "chat/request_words.h"

namespace anabranch {
namespace {

struct Case {
  const char* message;
  EscapeFormat format;
  const char* language = "";  // of code
};
using enum EscapeFormat;

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const TypedEscape got = typed_escape({.user = c.message});
    EXPECT_EQ(static_cast<int>(got.format), static_cast<int>(c.format)) << c.message << "\n  " << got.closing;
    EXPECT_EQ(got.answer_start, *c.language ? fmt::format("```{}\n", c.language) : "") << c.message;
    EXPECT_EQ(got.closing.empty(), c.format == plain) << c.message;
    EXPECT_TRUE(c.format == json || got.answer_fence.empty()) << c.message;
  }
}

TEST(TypedEscape, WhatTheRequestSaysOutsideItsTextComesFirst) {
  const char* user = "Answer as JSON: what is the weather?";
  EXPECT_EQ(typed_escape({.user = user, .json_format = true, .tools = true, .tool_required = true}).format,
            tool_call);
  EXPECT_EQ(typed_escape({.user = "Hello", .json_format = true}).format, json);
  EXPECT_EQ(typed_escape({.user = "Hello", .json_format = true}).answer_fence, "") << "a grammar forbids it";
  EXPECT_EQ(typed_escape({.user = user, .tools = true}).format, plain);
  EXPECT_EQ(typed_escape({.user = user}).format, json);
}

TEST(TypedEscape, SaysWhatTheAnswerIs) {
  EXPECT_EQ(typed_escape({.user = "Hello"}).closing, "");
  EXPECT_NE(typed_escape({.user = "Write a Python function"}).closing.find("code in python."),
            std::string::npos);
  EXPECT_NE(typed_escape({.user = "Write a function"}).closing.find("is code."), std::string::npos);
  EXPECT_NE(typed_escape({.user = "Return JSON"}).closing.find("is JSON"), std::string::npos);
  EXPECT_NE(typed_escape({.user = "Hello", .tool_required = true}).closing.find("tool"), std::string::npos);
}

TEST(TypedEscape, AJsonFenceBeginsTheAnswerUnlessItShallBeBare) {
  for (const char* fenced :
       {"Extract the name and the age as JSON: Anna is 30.", "Return a JSON object with the keys a and b.",
        "Gib die Liste im JSON-Format aus.", "Donne la liste des villes au format JSON.",
        "Верни результат в формате JSON.", "请用JSON格式返回姓名和年龄。", "結果をJSONで返してください。"})
    EXPECT_EQ(typed_escape({.user = fenced}).answer_fence, "```json") << fenced;
  for (const char* bare :
       {"Output only JSON.", "Respond with valid JSON only.", "Return raw JSON without a code fence.",
        "Antworte nur mit gültigem JSON.", "Réponds uniquement en JSON.", "Responda apenas em JSON.",
        "JSONだけを返してください。"}) {
    EXPECT_EQ(typed_escape({.user = bare}).format, json) << bare;
    EXPECT_EQ(typed_escape({.user = bare}).answer_fence, "") << bare;
  }
}

TEST(TypedEscape, English) {
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
      {"I need C# code for a timer", code, "csharp"},
      {"What is the secret code for river?", plain},
      {"Give me the secret code of the lantern room.", plain},
      {"What is the function of the heart?", plain},
      {"Write about pythons and other snakes.", plain},
      {"Explain what this function does:\n```python\ndef f(): pass\n```", plain},
      {"Let us go in and write a poem.", plain},
      {"Write a program for our summer concert.", plain},
      {"Tell me about the history of Java the island", plain},

      {"Write an SQL query that lists all users older than 30", code, "sql"},
      {"Create a table for orders in PostgreSQL", code, "sql"},
      {"What is SQL injection?", plain},

      {"How does machine translation work?", plain},
      {"Tell me about French cuisine", plain},

      {"Put the book on the table and tell me a story", plain},
      {"Explain the table below", plain},
      {"What is a table in a database?", plain},

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

TEST(TypedEscape, German) {
  check({
      {"Extrahiere Name und Alter als JSON: Anna ist 30.", json},
      {"Antworte nur mit gültigem JSON.", json},
      {"Gib die Liste im JSON-Format aus.", json},
      {"Was ist JSON?", plain},
      {"Schreibe eine Funktion in Python, die zwei Zahlen addiert.", code, "python"},
      {"Kannst du mir eine Java-Klasse schreiben?", code, "java"},
      {"Was ist die Funktion der Leber?", plain},
      {"Schreibe eine SQL-Abfrage, die alle Kunden zählt.", code, "sql"},
      {"Wie funktioniert eine Übersetzung?", plain},
      {"Erkläre die folgende Tabelle", plain},
      {"Schreibe drei Sätze über Hunde", plain},
  });
}

TEST(TypedEscape, French) {
  check({
      {"Réponds uniquement en JSON.", json},
      {"Donne la liste des villes au format JSON.", json},
      {"Qu'est-ce que JSON ?", plain},
      {"Écris une fonction Python qui trie une liste.", code, "python"},
      {"Écrivez un programme en C++", code, "cpp"},
      {"Écris une requête SQL pour compter les clients", code, "sql"},
      {"Écris trois phrases sur les chats", plain},
      {"Pourquoi le ciel est-il bleu ?", plain},
  });
}

TEST(TypedEscape, SpanishItalianPortuguese) {
  check({
      {"Devuelve el resultado en formato JSON.", json},
      {"¿Qué es JSON?", plain},
      {"Escribe una función en Python que sume dos números.", code, "python"},
      {"Escribe una consulta SQL que liste los clientes", code, "sql"},
      {"Escribe dos frases sobre el mar", plain},
      {"Rispondi in formato JSON.", json},
      {"Che cos'è JSON?", plain},
      {"Scrivi una funzione Python che ordina una lista", code, "python"},
      {"Perché il cielo è blu?", plain},
      {"Responda apenas em JSON.", json},
      {"O que é JSON?", plain},
      {"Escreva uma função em Python que soma dois números", code, "python"},
      {"Por que o céu é azul?", plain},
  });
}

TEST(TypedEscape, Russian) {
  check({
      {"Верни результат в формате JSON.", json},
      {"Что такое JSON?", plain},
      {"Напиши функцию на Python, которая складывает числа.", code, "python"},
      {"Напишите запрос SQL для подсчёта клиентов", code, "sql"},
      {"Напиши три предложения о море", plain},
      {"Почему небо голубое?", plain},
  });
}

TEST(TypedEscape, ChineseAndJapanese) {
  check({
      {"请用JSON格式返回姓名和年龄。", json},
      {"以 JSON 输出结果", json},
      {"什么是JSON?", plain},
      {"用Python写一个函数,计算阶乘。", code, "python"},
      {"写一个SQL查询,统计用户", code, "sql"},
      {"写三句话", plain},
      {"天空为什么是蓝色的?", plain},
      {"結果をJSONで返してください。", json},
      {"JSONとは何ですか?", plain},
      {"Pythonで階乗の関数を書いてください。", code, "python"},
      {"空はなぜ青いのですか?", plain},
  });
}

TEST(TypedEscape, WhatIsNegatedIsNotAskedFor) {
  check({
      {"Do not write SQL queries, just explain joins.", plain},
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
      {"No prose, return JSON only.", json},
      {"Responda no formato JSON.", json},
  });
}

TEST(TypedEscape, PastedTextAsksForNothing) {
  std::string document;
  for (int i = 0; i < 100; i++) document += "The report says: write a Python function and return JSON.\n";
  const std::string filler(3000, 'x');
  const std::string begin = "Here is a document.\n" + filler + "\n";
  EXPECT_EQ(typed_escape({.user = begin + document + filler + "\n\nWho wrote it?"}).format, plain);
  EXPECT_EQ(typed_escape({.user = begin + document + filler + "\n\nList five facts as JSON."}).format, json);
  EXPECT_EQ(typed_escape({.user = "What does \"return JSON\" mean?"}).format, plain);
  EXPECT_EQ(typed_escape({.user = "Tell me what ```\nwrite a Python function\n``` means"}).format, plain);
}

TEST(TypedEscape, AnyBytesAreRead) {
  std::string bytes;
  for (int i = 0; i < 6000; i++) bytes += static_cast<char>((i * 7919) >> 3);
  for (size_t n = 0; n < bytes.size(); n += 37) typed_escape({.user = std::string_view(bytes).substr(n)});
  for (const char* odd :
       {"\"", "```", "``` ```", "\xE2\x80\x9C", "\n\n", " . . ", "`a`", "\xFF\xFE", "# + -"})
    EXPECT_EQ(static_cast<int>(typed_escape({.user = odd}).format), 0) << odd;
}

TEST(TypedEscape, LongMessagesAreReadFast) {
  const std::clock_t start = std::clock();
  for (const std::string part :
       {"\"", "\xE2\x80\x9C", "```", "`\n", "write ", "what is 3 ", "\xE5\x88\x97", ".\n\n", "["}) {
    std::string message;
    while (message.size() < 2000000) message += part;
    typed_escape({.user = message});
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
}  // namespace anabranch
