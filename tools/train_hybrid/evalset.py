"""60 everyday questions with checks. blocked() keeps them, and most of their entities in the same relation, out of the training data."""
import re
# (question, regex that a right answer must match (case-insensitive), regex it must not match or None)
EVAL = [
 ("What is the capital of Sweden?", r'stockholm', None), ("Which city is the capital of Kenya?", r'nairobi', None), ("What's the capital of Peru?", r'\blima\b', None),
 ("Name the capital city of Hungary.", r'budapest', None), ("What currency is used in Thailand?", r'baht', None), ("Which language do people speak in Finland?", r'finnish', None),
 ("What colour is a lemon?", r'yellow', None), ("What color is an orange carrot's leaf?", r'green', None), ("What colour are strawberries?", r'\bred\b', None),
 ("How many legs does a chicken have?", r'\b(two|2)\b', None), ("How many days are in April?", r'\b30\b|thirty', None), ("How many wheels does a tricycle have?", r'\b(three|3)\b', None),
 ("What is 7 + 6?", r'\b13\b', None), ("What is 15 - 9?", r'\b6\b', None), ("What is 8 times 7?", r'\b56\b', None), ("What is 36 divided by 4?", r'\b9\b', None), ("What is half of 50?", r'\b25\b', None),
 ("What is the opposite of narrow?", r'\b(wide|broad)\b', None), ("What is the opposite of guilty?", r'innocent', None), ("Give me a synonym for rapid.", r'\b(fast|quick|swift|speedy)\b', None),
 ("What day comes after Thursday?", r'friday', None), ("Which month comes before June?", r'\bmay\b', None), ("What is the plural of wolf?", r'wolves', None), ("What is the past tense of swim?", r'\bswam\b', None),
 ("How do you say 'bridge' in French?", r'\bpont\b', None), ("Translate 'cheese' to Spanish.", r'queso', None), ("Translate 'good night' to German.", r'gute nacht', None), ("What does 'gatto' mean in English?", r'\bcat\b', None),
 ("Who wrote The Great Gatsby?", r'fitzgerald', None), ("Who painted The Last Supper?", r'leonardo|da vinci', None), ("Who discovered radioactivity of radium, Marie Curie or Isaac Newton?", r'curie', None), ("In which country is the city of Kyoto?", r'japan', None),
 ("What is the largest planet in our solar system?", r'jupiter', None), ("What do you call frozen rain that falls as balls of ice?", r'hail', None), ("What gas do people breathe out?", r'carbon dioxide|co2', None), ("Which organ pumps blood?", r'heart', None),
 ("Is a shark a mammal or a fish?", r'\bfish\b', r'is a mammal'), ("Do cats have wings?", r'\bno\b|do not|don\'t', None), ("Can a stone swim?", r'\bno\b|cannot|can\'t|sink', None), ("Is 17 an even number?", r'\bno\b|odd|not', None),
 ("Which is bigger, a horse or a cat?", r'horse', None), ("Which is larger, 84 or 48?", r'\b84\b', None), ("Sort these numbers: 9, 2, 5", r'2\D+5\D+9', None), ("Spell the word 'table' backwards.", r'\belbat\b', None),
 ("hello there, how is it going?", r'help|fine|well|good|great', r'password|secret'), ("Thank you so much!", r'welcome|glad', None), ("Who are you, please?", r'language model|assistant|anabranch', None), ("hi, are you there?", r'here|help|hello|hi\b|yes', r'password|secret|code for'),
 ("Tell me a short joke, please.", r'.{20,}', r'password|secret code'), ("Write a haiku about autumn.", r'\n.+\n', None), ("List three kinds of fruit.", r'(apple|banana|orange|grape|strawberr|mango|pear|kiwi|cherr|pineapple|peach|plum).*(apple|banana|orange|grape|strawberr|mango|pear|kiwi|cherr|pineapple|peach|plum)', None),
 ("Write a Python function that returns the absolute value of a number.", r'```.*def .*```', None), ("Write a JavaScript function that doubles a number.", r'```.*(function|=>).*```', None), ("Write a bash command that prints the word hello.", r'echo', None), ("How do I see the status of my git repository?", r'git status', None),
 ("Write an SQL query that gets all rows of the table books.", r'select\s+\*\s+from\s+books', None), ("Summarize in one sentence: The train was late because of snow, so Anna missed her meeting and went home.", r'train|anna|snow', None), ("Write a short email to my boss to say I am ill today.", r'(dear|hi|hello|subject).*(ill|sick|unwell|not feeling)', None),
 ("Give me two tips for sleeping better.", r'sleep|bed|night|screen|caffeine', None), ("Why do we need food?", r'energy|nutrient|grow', None),
]
N = lambda s: re.sub(r'[^a-z0-9]+', ' ', s.lower()).strip()
EQ = {N(q) for q, _, _ in EVAL}
# entities withheld in the templates (relation regexes on the question)
BLOCK = re.compile(r'capital.*\b(sweden|kenya|hungary)\b|\b(stockholm|nairobi|budapest)\b.*capital|(currency|money).*thailand|thailand.*(currency|money)|language.*finland|speak in finland'
                   r'|colou?r.*(lemon|strawberr)|legs does a chicken|days (are in|does|has|in) april|april.*days|tricycle'
                   r'|\b7 \+ 6\b|\b15 - 9\b|\b8 (times|\*|x) 7\b|\b36 divided by 4\b|half of 50\b|opposite of "?(narrow|guilty)|synonym.*\brapid\b|(after|follows) thursday|before june|plural of "?wolf|past tense of "?swim'
                   r"|bridge.*french|cheese.*spanish|good night.*german|gatto|great gatsby|last supper|kyoto|sharks? a |17 (even|odd|an even)|absolute value|doubles a number|git status", re.I)


def blocked(q):
    return N(q) in EQ or bool(BLOCK.search(q))


def score(ans):
    ok = []
    for (q, good, bad), a in zip(EVAL, ans):
        a = a.split('</think>')[-1]
        ok.append(bool(re.search(good, a, re.I | re.S)) and not (bad and re.search(bad, a, re.I)))
    return ok
