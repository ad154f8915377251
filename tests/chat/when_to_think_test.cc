#include "chat/when_to_think.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

bool thinks(const char* message, int prompt_tokens = 100) {
  const ThinkDecision choice = when_to_think(message, prompt_tokens);
  EXPECT_FALSE(choice.reason.empty());
  return choice.think;
}

TEST(WhenToThink, NotForGreetingsAndThanks) {
  for (const char* message : {"Hi",
                              "Hello!",
                              "hey there",
                              "Good morning, how are you?",
                              "Thanks a lot!",
                              "thank you very much",
                              "Ok, thanks. Bye!",
                              "Hallo, wie geht es dir?",
                              "Vielen Dank!",
                              "Guten Morgen",
                              "Bonjour, ça va ?",
                              "Merci beaucoup",
                              "Hola, ¿cómo estás?",
                              "Muchas gracias",
                              "Ciao, come stai?",
                              "Grazie mille!",
                              "Olá, tudo bem?",
                              "Muito obrigado",
                              "Привет, как дела?",
                              "Спасибо большое",
                              "你好",
                              "谢谢你!",
                              "こんにちは",
                              "ありがとうございます。"}) {
    EXPECT_FALSE(thinks(message)) << message;
    EXPECT_FALSE(thinks(message, 5000)) << message << " in a long prompt";
  }
  for (const char* message :
       {"Hi, prove that there are infinitely many primes", "Thanks, now solve the second one",
        "Hello world in Rust?", "Whatever you want", "Hilfe bei Integralen"})
    EXPECT_TRUE(thinks(message)) << message;
}

TEST(WhenToThink, NotForTheTimesTable) {
  for (const char* message : {"What is 7 * 8?", "3 + 4", "5 plus 6?", "What's 9 times 9", "Was ist 7 mal 8?",
                              "Combien font 3 fois 4 ?", "¿Cuánto es 5 + 5?", "Quanto fa 6 per 7?",
                              "Сколько будет 2 плюс 2?", "3加4等于几?"})
    EXPECT_FALSE(thinks(message)) << message;
  for (const char* message :
       {"What is 37 + 58?", "What is 7 * 8 + 3?", "Anna has 7 apples and gets 8 times as many. How many?",
        "Calculate 123 * 456", "7 8", "What is 7 percent of 8?"})
    EXPECT_TRUE(thinks(message)) << message;
}

TEST(WhenToThink, NotForAPlainFact) {
  for (const char* message :
       {"What is the capital of France?", "Who wrote Romeo and Juliet?",
        "Was ist die Hauptstadt von Frankreich?", "Quelle est la capitale du Japon ?",
        "¿Cuál es la capital de Perú?", "Qual è la capitale d'Italia?", "Кто написал «Войну и мир»?",
        "法国的首都是哪里?", "日本の首都はどこですか?", "what's the capital of south korea",
        "Who invented the telephone?", "谁写了红楼梦?"})
    EXPECT_FALSE(thinks(message)) << message;
  for (const char* message : {"Who is Ada Lovelace?",
                              "Where is Lisbon?",
                              "Who wrote the failing test?",
                              "Who is the tallest if Anna is taller than Ben?",
                              "What is the best way to compare two proofs?",
                              "Why is the sky blue?",
                              "What is the next number in 2, 4, 8?",
                              "Whoever is right should win",
                              "Warum ist der Himmel blau?",
                              "Pourquoi le ciel est-il bleu ?",
                              "¿Por qué el cielo es azul?",
                              "Perché il cielo è blu?",
                              "Почему небо голубое?",
                              "天空为什么是蓝色的?",
                              "空はなぜ青いのですか?",
                              "Implement a lock-free queue",
                              "Write a poem about the sea",
                              "What is the derivative of sin(x)cos(x)?",
                              "Where is the bug in my loop?",
                              "Where is the bug?",
                              "Where Is The Bug?",
                              "WHERE IS THE BUG?",
                              "What is wrong with this argument?",
                              "Who is taller, Ann or Bob, given Ann is shorter?",
                              "Who is right?",
                              "When is a matrix invertible?",
                              "When was the bug introduced?",
                              "What is the largest prime below a hundred?",
                              "What is a monad?",
                              "What is the capital of the country with the most people?",
                              "What is the capital of a company?",
                              "Who wrote this?",
                              "Who wrote more letters, Ann or Bob?",
                              "How old is the universe?",
                              "Wo ist der Fehler?",
                              "Où est l'erreur ?",
                              "Где находится ошибка?",
                              "人口最多的国家的首都是哪里?"})
    EXPECT_TRUE(thinks(message)) << message;
}

TEST(WhenToThink, ForANeedleInALongPrompt) {
  const auto reason = [](const std::string& message, int tokens) {
    return when_to_think(message, tokens).reason;
  };
  const std::string needle = "looks something up";
  std::string document;
  for (int i = 0; i < 400; i++) document += "The river runs slowly past the old mill and the trees.\n";
  for (const char* question :
       {"Who is the owner of the mill?", "What is the secret code for river?", "Find the name of the miller.",
        "Wer ist der Müller?", "Où est la clé ?", "¿Dónde está la llave?", "Dov'è la chiave?",
        "Onde está a chave?", "Где находится ключ?", "钥匙在哪里?", "鍵はどこですか?"}) {
    // The long text in the system prompt or an earlier turn, before the question, and after it.
    EXPECT_NE(reason(question, 4000).find(needle), std::string::npos) << question;
    EXPECT_NE(reason(document + "\n" + question, 4000).find(needle), std::string::npos) << question;
    EXPECT_NE(reason(std::string(question) + "\n\n" + document, 4000).find(needle), std::string::npos)
        << question;
    EXPECT_TRUE(when_to_think(question, 4000).think);
  }
  EXPECT_EQ(reason("Who is the owner of the mill?", 60).find(needle), std::string::npos) << "a short prompt";
  for (const char* other : {"Whatever you want", "Summarize what happened.", "Nothing more.", "Wherever"})
    EXPECT_EQ(reason(other, 4000).find(needle), std::string::npos) << other;
}

TEST(WhenToThink, OtherwiseThinks) {
  for (const char* message : {"", "\n", "???", "\xFF", "Plan a trip to Rome", "Extract the fields as JSON"})
    EXPECT_TRUE(thinks(message)) << message;
}

}  // namespace
}  // namespace anabranch
