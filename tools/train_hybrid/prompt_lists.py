"""Own lists for the teacher's prompts (those of the second round are in build_prompts.py)."""


def split(text):
    return [x.strip() for x in text.replace('\n', ' ').split('|') if x.strip()]


TOPICS = split("""the printing press|the steam engine|the compass|paper money|the stock exchange|insurance|mortgages|interest rates|supply and demand|free trade|
the European Union|the United Nations|the Red Cross|the Olympic Games|the World Cup|chess|checkers|poker|crossword puzzles|sudoku|origami|knitting|pottery|woodworking|
gardening|composting|beekeeping|fishing|hiking|rock climbing|sailing|surfing|skiing|ice skating|swimming|cycling|marathon running|martial arts|ballet|tango|jazz|opera|
rock music|classical music|hip hop|folk songs|the piano|the violin|the guitar|drums|the flute|photography|oil painting|watercolours|sculpture|graffiti|architecture|Gothic
cathedrals|castles|lighthouses|bridges|tunnels|canals|dams|skyscrapers|elevators|railways|trams|bicycles|motorcycles|submarines|helicopters|hot air balloons|rockets|satellites|
space stations|telescopes|microscopes|thermometers|barometers|clocks|calendars|maps|globes|GPS|radar|radio|television|the telephone|smartphones|computers|keyboards|printers|
microchips|transistors|lasers|fibre optics|the internet|e-mail|search engines|social media|online shopping|cloud computing|open source software|operating systems|file systems|
databases|spreadsheets|encryption|passwords|computer viruses|firewalls|backups|version control|unit tests|debugging|algorithms|recursion|binary numbers|data structures|
machine learning|neural networks|language models|robots|self-driving cars|drones|3D printing|virtual reality|video games|board games|card games|fairy tales|myths|legends|fables|
detective stories|science fiction|poetry|haiku|sonnets|novels|short stories|diaries|biographies|newspapers|magazines|libraries|museums|theatres|cinemas|circuses|zoos|aquariums|
national parks|rainforests|savannas|tundra|swamps|wetlands|islands|peninsulas|fjords|geysers|waterfalls|tides|ocean currents|monsoons|droughts|floods|avalanches|tsunamis|
landslides|erosion|soil|minerals|gemstones|gold|silver|copper|iron|steel|aluminium|glass|concrete|plastic|rubber|leather|wool|cotton|silk|paper|ink|paint|soap|perfume|candles|
matches|umbrellas|shoes|hats|gloves|eyeglasses|contact lenses|hearing aids|wheelchairs|ambulances|hospitals|pharmacies|dentists|surgeons|nurses|teachers|judges|lawyers|firefighters|
police officers|pilots|sailors|farmers|bakers|carpenters|electricians|plumbers|engineers|scientists|astronauts|journalists|translators|librarians|gravity|friction|inertia|
momentum|electric current|voltage|magnetism|static electricity|nuclear energy|fossil fuels|hydroelectric power|geothermal energy|biofuels|carbon footprints|the greenhouse effect|
acid rain|the ozone layer|biodiversity|endangered species|food chains|photosynthesis|pollination|seeds|roots|leaves|mushrooms|algae|moss|ferns|cacti|oak trees|pine trees|roses|tulips|
sunflowers|hibernation|migration|camouflage|metamorphosis|mammals|reptiles|amphibians|fish|birds|insects|crustaceans|worms|snails|jellyfish|octopuses|seahorses|turtles|crocodiles|
lizards|parrots|pigeons|swans|hummingbirds|ostriches|kangaroos|koalas|pandas|giraffes|zebras|rhinos|hippos|camels|goats|sheep|pigs|donkeys|rabbits|hamsters|guinea pigs|goldfish|
genes|chromosomes|enzymes|hormones|the nervous system|the skeleton|muscles|skin|eyes|ears|teeth|kidneys|the liver|blood types|vitamin C|calcium|fibre|caffeine|dehydration|jet lag|
sunburn|hiccups|snoring|left-handedness|colour blindness|déjà vu|laughter|boredom|curiosity|friendship|trust|honesty|courage|patience|kindness|gratitude|jealousy|loneliness|
happiness|success|failure|teamwork|leadership|negotiation|job interviews|remote work|meetings|deadlines|to-do lists|habits|goals|budgets|savings accounts|retirement|volunteering|charity|
birthdays|weddings|Christmas|New Year|Easter|Halloween|Thanksgiving|Diwali|Ramadan|Chinese New Year|Japanese tea ceremony|Italian cuisine|Mexican food|Indian spices|sushi|sourdough|
fermentation|ice cream|pancakes|sandwiches|breakfast|picnics|barbecues|vegetarian food|food waste|school uniforms|homework|exams|universities|scholarships|apprenticeships|grammar|
punctuation|spelling|synonyms|metaphors|rhymes|proverbs|idioms|dialects|sign language|Braille|Morse code|alphabets|hieroglyphs|Latin|Esperanto|English spelling|prime numbers|
fractions|percentages|decimals|negative numbers|square roots|exponents|algebra|geometry|triangles|circles|probability|averages|graphs|Roman numerals|the metric system|zero|infinity|pi|
the golden ratio|Stone Age tools|the Bronze Age|the Iron Age|Mesopotamia|the Aztecs|the Incas|the Maya|the Ottoman Empire|the British Empire|the Black Death|the Age of Discovery|
the American Revolution|the American Civil War|the Russian Revolution|the Great Depression|the moon landing|the fall of the Berlin Wall|the Magna Carta|the Rosetta Stone|Pompeii|
Stonehenge|Machu Picchu|the Eiffel Tower|the Statue of Liberty|the Taj Mahal|the Colosseum|Big Ben|the Panama Canal|the Suez Canal|the Amazon River|the Nile|the Sahara|Mount Everest|
the Grand Canyon|Niagara Falls|the Great Barrier Reef|the Dead Sea|Iceland|Japan|Brazil|Kenya|India|Norway|Australia|Canada|Egypt|Mexico|Vietnam|New Zealand|Switzerland|Greece""")

TOPIC_FORMS = split("""What is {}?|Tell me something about {}.|Tell me about {}|Explain {} in simple terms.|Explain {} in two sentences.|Explain {} to a ten-year-old.|
Give me two facts about {}.|Give me a short introduction to {}.|Why do people care about {}?|What is the history of {}?|How did {} change the world?|What are common myths about {}?|
What are the main parts or aspects of {}?|Describe {} briefly.|Write one paragraph about {}.|Write a short, friendly blog post about {}.|Write three sentences about {}.|
Write a limerick about {}.|Write a four-line poem about {}.|Write a riddle about {}.|Write a headline about {}.|Write a short dialogue about {}.|Give me five words related to {}.|
Ask me a quiz question about {}.|List three advantages of {}.|List three problems with {}.|What would the world be like without {}?|What is the most surprising thing about {}?|
What should a beginner know about {}?|Where can I learn more about {}?|Is {} important? Why?|Summarize what you know about {} in one sentence.|What questions do people often ask about {}?|
Make a short outline for a talk about {}.|Give me a fun fact about {}.|How would you describe {} to someone who has never heard of it?|{}|What's interesting about {}?|
Write a short newspaper article about {}.|Write a definition of {} for a dictionary.|Compare {} today with {} a hundred years ago.|Write a funny one-liner about {}.|
Give an example of {} in daily life.|Write a bedtime story about {}.|I know nothing about {}. Where should I start?|Write a short encyclopedia entry about {}.|
Describe {} in exactly three bullet points.|Describe {} as a numbered list of facts.""")

FIELD_FORMS = {
    'animal': split("""What is a {}?|Describe a {}.|What does a {} look like?|What does a {} eat?|Where does a {} live?|Tell me about the {}.|Give me two facts about the {}.|
Write a short poem about a {}.|Write a very short story about a {}.|Is a {} dangerous to people?|How does a {} move?|Is a {} a mammal, a bird, a fish or something else?|How long does a {} live?|
What sound does a {} make?|Can you keep a {} as a pet?|Suggest a name for a {}.|Explain to a child what a {} is."""),
    'food': split("""What is {}?|What does {} taste like?|How is {} made?|What goes well with {}?|Is {} healthy?|How do I store {}?|Give me a simple recipe with {}.|Suggest a dish with {}.|
What can I use instead of {}?|Is {} eaten hot or cold?|Tell me about {}.|Describe {} in one sentence.|Write a menu entry for {}.|When do people usually eat {}?"""),
    'plant': split("""What is {}?|Where does {} grow?|What is {} used for?|Describe {} in two sentences.|How do I care for {}?|Can you eat {}?|Tell me about {}.|Write a haiku about {}.|When does {} grow?"""),
    'thing': split("""What is a {}?|What is a {} used for?|Describe a {}.|Who uses a {}?|What is a {} made of?|How does a {} work?|Explain what a {} is to a child.|Where would you find a {}?|
Write a two-sentence story about a {}.|Write an advertisement for a {}.|How do I clean a {}?|What can I use instead of a {}?|Give me three uses for a {}.|Use {} in a sentence.|
What should I look for when buying a {}?|Write a product description for a {}.|Name three things that are like a {}."""),
    'body': split("""What is the {}?|What does the {} do?|Where is the {}?|Why is the {} important?|How can I take care of my {}?|Explain the {} to a child.|Give me a fact about the {}."""),
    'person': split("""What is a {}?|What does a {} do?|Describe a typical day of a {}.|Write a two-sentence story about a {}.|What makes a good {}?|How do you become a {}?|
Where does a {} work?|Write a short dialogue with a {}.|Name three words that describe a {}.|What does a {} need?|Use {} in a sentence.|Write a joke about a {}."""),
    'act': split("""What is {}?|What does {} mean?|Explain {} in one sentence.|Why is {} useful?|Give an example of {}.|Use {} in a sentence.|How do people get better at {}?|Write a short paragraph on {}."""),
    'idea': split("""What is meant by {}?|Define {}.|Explain the word {} with an example.|Use {} in a sentence.|Give an example of {}.|Write one paragraph about {}.|Why does {} matter?|What is the opposite of {}?"""),
    'text': split("""What is a {}?|Define {}.|Give an example of a {}.|Use {} in a sentence.|When do people use a {}?|How do I write a good {}?|What makes a good {}?"""),
    'feeling': split("""What is {}?|What does {} feel like?|What causes {}?|How can I deal with {}?|Write a short poem about {}.|Describe {} without using the word.|Give an example of {}.|Write a two-sentence story about {}.|What helps against {}?"""),
    'place': split("""What is a {}?|Describe a {}.|What can you do in a {}?|Who works in a {}?|Use {} in a sentence.|Tell me about {}.|Write a two-sentence story set in a {}."""),
    'landscape': split("""What is a {}?|Describe a {}.|How is a {} formed?|Write a poem about a {}.|Tell me about {}.|Give me a fact about {}.|Use {} in a sentence."""),
    'phenomenon': split("""What is {}?|What causes {}?|Explain {} simply.|Give an example of {}.|Why is {} important?|Where can I see {}?|Write two sentences about {}."""),
    'substance': split("""What is {}?|What is {} used for?|Where does {} come from?|Is {} dangerous?|How is {} made?|What does {} look like?|Name two things made with {}.|Tell me about {}."""),
    'group': split("""What is a {}?|Define {}.|Give an example of a {}.|Use {} in a sentence.|Describe a {} in one sentence.|What is the purpose of a {}?"""),
    'event': split("""What is a {}?|Describe a {}.|Give an example of a {}.|Use {} in a sentence.|What can cause a {}?|Write a two-sentence story about a {}."""),
    'state': split("""What does {} mean?|Explain {} with an example.|Use {} in a sentence.|What can be done about {}?|Give a synonym for {}.|Write two sentences about {}."""),
    'quality': split("""What does {} mean?|Give an example of {}.|Use {} in a sentence.|Why is {} valued?|What is the opposite of {}?|Write a short paragraph about {}."""),
    'time': split("""What is a {}?|Use {} in a sentence.|Write a two-line poem about {}.|What do people do during a {}?"""),
}

HOW = split("""pack a suitcase|fold a fitted sheet|clean an oven|unclog a drain|descale a kettle|sharpen a knife|season a cast-iron pan|poach an egg|make soup from leftovers|cook pasta al dente|
make a vinaigrette|whip cream|melt chocolate|freeze vegetables|keep bread fresh|ripen an avocado|peel garlic quickly|chop an onion without crying|set a table|write a thank-you note|
write a wedding toast|write a cover letter|write a product review|write a complaint|write meeting minutes|take good notes|make flash cards|read faster|remember names|stay focused|
take a power nap|stretch my back|start jogging|do a push-up|learn to swim|treat a blister|stop a nosebleed|remove a splinter|treat a small burn|deal with a cold|wrap a present|
tie a tie|tie shoelaces|braid hair|polish shoes|remove chewing gum from clothes|wash a wool sweater|get rid of ants|keep mosquitoes away|attract birds to a garden|grow herbs indoors|
repot a plant|prune roses|start a compost heap|build a birdhouse|hang a picture|paint a wall|fix a squeaky door|bleed a radiator|read an electricity meter|save water at home|
lower my heating bill|compare phone contracts|cancel a subscription|write a will|open a bank account|read a payslip|ask for a discount|sell things online|spot a phishing mail|
clean a keyboard|speed up an old laptop|connect a printer|share a screen|make a video call|record a podcast|edit a photo|make a slide show|use a spreadsheet|sort a table in a spreadsheet|
sum a column in a spreadsheet|make a pie chart|merge two PDF files|take a screenshot on a phone|move photos to a computer|set up two-factor authentication|choose a domain name|
build a simple website|write clean code|name variables well|review a pull request|write a commit message|undo the last git commit|create a git branch|resolve a merge conflict|
write a unit test|debug a segmentation fault|profile a slow program|read a stack trace|parse JSON in Python|read a CSV file in Python|write a for loop in C|open a file in Java|
make an HTTP request in JavaScript|sort an array in JavaScript|reverse a list in Python|create a virtual environment in Python|install a package with pip|schedule a job with cron|
see which process uses a port|mount a USB drive in Linux|rename many files at once|find large files|monitor a log file|connect with SSH|copy files with scp|create an SSH key|
restart a service with systemctl|write a Dockerfile|list Docker containers|back up a database|add an index in SQL|convert kilometres to miles|convert pounds to kilograms|
compute a percentage|find the area of a triangle|solve a linear equation|simplify a fraction|find the average of numbers|read a map|use a compass|find north without a compass|
light a campfire safely|put up a tent|choose hiking boots|plan a road trip|travel with a baby|fly with a cat|behave at a formal dinner|introduce two people|apologize sincerely|say no politely|
give feedback|run a short meeting|make a decision|break a bad habit|get up on time|plan a week|organize a desk|declutter a wardrobe|throw a surprise party|entertain children on a rainy day|
teach a child to read|tell a good story|tell a joke well|write a poem|draw a face|take a portrait photo|play a C major chord|tune a guitar|learn the notes|win at tic-tac-toe|solve a maze|
improve my handwriting|pronounce English words better|learn irregular verbs|prepare for a language exam|ask for directions|order in a restaurant|write a postcard""")
HOW_FORMS = ['How do I {}?', 'How can I {}?', 'how to {}', 'What is the easiest way to {}?', 'Explain in three steps how to {}.', 'Can you tell me how to {}?', 'I need to {}. Any tips?',
             'What do I need to {}?', 'What mistakes should I avoid when I {}?', 'Write short instructions: {}.', 'Give me a checklist to {}.', 'How long does it take to {}?',
             'Is it hard to {}?', 'Teach me to {} in a few sentences.']
WHY = split("""do we have eyebrows|do knuckles crack|does time seem to fly|do we forget dreams|does coffee wake us up|do some people snore|does the wind blow|are clouds white|is snow white|does salt melt ice|
do tyres need tread|do bicycles stay upright|are manhole covers round|do phones get slow|do we need backups|do computers use binary|do programs crash|do we comment code|do we test software|
do websites use cookies|do ships have anchors|do trees have rings|do cats land on their feet|do dogs pant|do geckos stick to walls|do fireflies glow|do spiders spin webs|do ducks not get wet|
do owls see at night|do snakes shed their skin|do giraffes have long necks|do polar bears have white fur|do fish have scales|do chickens cross roads in jokes|do we shake hands|
do people wear wedding rings|do judges wear robes|do countries have flags|do we pay taxes|do prices rise|do banks lend money|do people vote|did the dinosaurs die out|did Rome fall|
did people build castles|are the pyramids famous|is the Mona Lisa famous|is Shakespeare still read|do languages change|is English spelling hard|do we use commas|do we use zero|is ten the base of our numbers|
are there 24 hours in a day|are there 60 minutes in an hour|do we have weekends|does bread go stale|does milk turn sour|do apples turn brown|does butter melt|do we cook food|do we add yeast|
does sugar dissolve|does oil float on water|does hot air rise|do metals feel cold|does paper burn|do lamps need electricity|is copper used for wires|do mirrors reflect|do shadows get longer|
does the sea look blue|are deserts dry|do earthquakes happen|do continents move|does the compass point north|do planets orbit the sun|do astronauts float|is space dark|is Mars red|
is Pluto not a planet|should we save energy|should children play outside|should we wash our hands|is smoking harmful|are vegetables healthy|is walking good|do muscles hurt after sport|
do we sweat|do we shiver|do eyes water in the wind|do ears pop in a plane|do teeth need brushing|do nails grow|does hair turn grey|do babies cry|do teenagers sleep late""")
WHY_FORMS = ['Why {}?', 'why {}', 'Why {}? Answer briefly.', 'Can you explain why {}?', 'A child asks: why {}?', 'Why {}? Give me the main reason.', 'I always wondered: why {}?', 'Explain in two sentences: why {}?']
CODE = split("""checks whether a number is a power of two|returns the sum of squares of a list|removes the vowels from a string|counts the upper-case letters in a string|capitalizes every word|
returns the middle element of a list|returns the difference of two lists|finds the common elements of two lists|splits a list into chunks of n|zips two lists into a dictionary|
inverts a dictionary|sorts a dictionary by value|counts the lines in a string|checks whether brackets are balanced|converts a binary string to a number|converts a number to binary|
converts Roman numerals to integers|converts seconds to hours, minutes and seconds|computes compound interest|computes the body mass index|computes the distance between two points|
computes the median of a list|computes the mode of a list|rounds a number to two decimals|generates a random number between a and b|rolls two dice|draws a triangle of stars|
prints a chessboard pattern|prints a pyramid|prints the first n square numbers|prints all divisors of n|computes the least common multiple|checks whether a number is perfect|
checks whether two words rhyme by their last three letters|replaces spaces by underscores|trims whitespace|truncates a string to n characters|pads a number with zeros|
validates an e-mail address|validates a phone number|extracts all numbers from a text|extracts all links from a text|reads a JSON file|writes a list to a CSV file|appends a line to a file|
lists all files in a folder|checks whether a file exists|copies a file|measures how long a function takes|waits two seconds|retries a function three times|caches results of a function|
logs an error|prints the current date|computes the days between two dates|checks whether a date is a weekend|parses a date string|sends a GET request|starts a small web server|
reads an environment variable|parses command line arguments|asks the user for a name and greets them|implements a stack|implements a queue|implements a linked list|
implements bubble sort|implements insertion sort|implements quicksort|implements merge sort|implements a simple calculator|implements a guessing game|implements tic-tac-toe's winner check|
implements the Caesar cipher|implements run-length encoding|transposes a matrix|multiplies two matrices|rotates a matrix by 90 degrees|sums the diagonal of a matrix|finds the shortest path in a grid|
traverses a binary tree in order|computes the depth of a binary tree|inserts into a binary search tree|generates all permutations of a string|generates all subsets of a list|
computes the Levenshtein distance|finds the longest common prefix|finds the first repeated character|finds the missing number from 1 to n|moves zeros to the end of a list|
checks whether a list is sorted|interleaves two lists|removes None values from a list|groups words by their first letter|builds an acronym|counts syllables roughly|makes pig latin""")
CODE_FORMS = ['Write a Python function that {}.', 'Write a short Python function that {}.', 'Write a JavaScript function that {}.', 'Write a C function that {}.', 'Write a C++ function that {}.',
              'Write a Go function that {}.', 'Write a Rust function that {}.', 'Write a Java method that {}.', 'Write a TypeScript function that {}.', 'Write a bash script that {}.',
              'python: {}', 'Code that {} in Python, please.', 'Write a Python one-liner that {}.', 'Write a Python function that {}. Explain it in one sentence.', 'Write a Ruby method that {}.',
              'Write a C# method that {}.', 'Write a Kotlin function that {}.', 'Write a Swift function that {}.', 'Write a Lua function that {}.', 'Write a Perl subroutine that {}.',
              'Write pseudocode that {}.', 'Write a unit test for a function that {}.', 'What would a function that {} be called? Suggest three names.']
COMMANDS = split("""ls|cd|pwd|mkdir|rmdir|rm|cp|mv|touch|cat|less|head|tail|grep|find|sed|awk|sort|uniq|wc|cut|tr|tee|xargs|echo|printf|date|cal|whoami|id|chmod|chown|ln|df|du|free|top|ps|kill|
nice|nohup|jobs|fg|bg|history|alias|export|env|which|man|tar|gzip|zip|unzip|curl|wget|ssh|scp|rsync|ping|traceroute|ip|ss|dig|mount|umount|lsblk|fdisk|uname|uptime|who|passwd|sudo|su|
useradd|groups|systemctl|journalctl|crontab|apt install|apt update|dpkg -l|pip install|npm install|cargo build|make|cmake|gcc|gdb|strace|git init|git clone|git add|git commit|git push|git pull|
git fetch|git merge|git rebase|git branch|git checkout|git switch|git log|git diff|git stash|git reset|git tag|git remote|git blame|docker run|docker ps|docker build|docker compose up|
kubectl get pods|diff|patch|file|stat|md5sum|sha256sum|base64|hexdump|tmux|screen|vim|nano|watch|time|sleep|seq|yes|true|basename|dirname|realpath|split|paste|join|comm|nl|rev|fold|bc|expr""")
COMMAND_FORMS = ['What does the command {} do?', 'Explain the Linux command {}.', 'Give me an example of the command {}.', 'How do I use {}?', 'When would I use {}?', 'What is {} in the terminal?',
                 'Show me three useful options of {}.', 'What could go wrong with {}?']
TERMS = split("""a variable|a constant|a function|a parameter|an argument|a return value|a loop|a condition|an array|a list|a dictionary|a set|a string|an integer|a float|a boolean|a pointer|
a reference|a class|an object|inheritance|polymorphism|encapsulation|an interface|a module|a package|a library|a framework|an API|REST|JSON|XML|YAML|CSV|HTML|CSS|SQL|a primary key|a foreign key|
an index in a database|a transaction|a join|a deadlock|a race condition|a thread|a process|a mutex|a semaphore|garbage collection|a memory leak|a stack overflow|a heap|a stack|a queue|a hash table|
a linked list|a binary tree|a graph|big O notation|binary search|recursion|dynamic programming|a greedy algorithm|a compiler|an interpreter|a linker|a debugger|a profiler|a linter|a unit test|
an integration test|continuous integration|code review|refactoring|technical debt|a design pattern|dependency injection|a callback|a promise|async and await|an exception|a closure|a lambda|a decorator|
a generator|a regular expression|Unicode|UTF-8|ASCII|endianness|a bit|a byte|a checksum|a hash function|public key cryptography|HTTPS|TLS|DNS|an IP address|a port|a router|a proxy|a VPN|a load balancer|
a cache|a cookie|a session|OAuth|a webhook|a container|a virtual machine|a kernel|a driver|a shell|an environment variable|a symlink|a daemon|a cron job|RAID|an SSD|a GPU|a CPU core|cache memory|
floating point numbers|two's complement|overfitting|a training set|a token|an embedding|quantization|a context window|a prompt|temperature in language models|speculative decoding""")
TERM_FORMS = ['What is {}?', 'Explain {} in simple words.', 'Explain {} with an example.', 'What is {} used for?', 'Define {} in one sentence.', 'When do I need {}?', 'Explain {} to a beginner.',
              'Give an analogy for {}.', 'What are the advantages of {}?', 'What is the difference between {} and its alternatives?', 'Write a short documentation paragraph about {}.']
DOC_THINGS = split("""a command-line tool that renames photos|a library that reads configuration files|a server that streams music|a backup program|a text editor|a parser for dates|a task queue|
a weather widget|a password manager|a spell checker|a package manager|a chat client|a testing framework|a static site generator|a log viewer|a database driver|an image resizer|a calendar app|
a note-taking app|a file synchronizer|a code formatter|an HTTP client|a plotting library|a machine translation service|a game engine|a home automation hub|a budgeting tool|a web crawler|
a video converter|a key-value store|a scheduler|a template engine|a command shell|a network monitor|a language model server|a tokenizer|a matrix library|a PDF reader|a mail filter|a map renderer""")
DOC_FORMS = ['Write the introduction of a README for {}.', 'Write a paragraph of documentation for {}.', 'Write the installation section of a README for {}.', 'Write a short FAQ for {}.',
             'Describe the features of {} in a few sentences.', 'Write a changelog entry for {}.', 'Write a paragraph that explains the design of {}.', 'Write a help text for {}.',
             'Describe how a user would configure {}.', 'Write a troubleshooting paragraph for {}.', 'Explain in prose how {} works inside.', 'Write a release announcement for {}.']
WHO_TO = split("""my boss|my teacher|a friend|a colleague|a customer|my landlord|my neighbour|the support team|my team|a hotel|a doctor's office|my aunt|my professor|a client|the city council|a supplier|
my partner|a former classmate|the school|a job applicant|an online shop|the bank|the insurance company|my football club|the library""")
REASONS = split("""say thank you for the help|ask for two days off|apologize for a mistake|move a meeting to next week|invite them to a party|ask about an invoice|complain about noise|report a broken heater|
cancel an appointment|confirm an appointment|congratulate them on a new job|wish them a happy birthday|ask for a recommendation|share good news|say goodbye before moving away|ask for directions to the office|
offer help with a project|send a reminder about a deadline|ask for feedback|introduce myself|explain why I was late|return a borrowed book|order more paper|suggest a date for lunch|decline an invitation|
accept an offer|ask for a refund|report a lost parcel|thank them for a gift|ask how they are after an operation""")
MESSAGE_FORMS = ['Write a short email to {} to {}.', 'Write a text message to {} to {}.', 'Help me write a polite note to {} to {}.', 'Draft an email to {}. I want to {}.', 'write an email to {} to {}',
                 'Write a formal letter to {} to {}.', 'Write two friendly sentences to {} to {}.']
INGREDIENTS = split("""eggs|rice|pasta|potatoes|tomatoes|onions|garlic|carrots|chicken|minced meat|tuna|beans|lentils|cheese|milk|cream|yogurt|butter|bread|flour|spinach|broccoli|peppers|mushrooms|zucchini|
apples|bananas|lemons|oats|honey|tofu|bacon|cabbage|corn|chickpeas|salmon|leeks|pumpkin""")
FRIDGE_FORMS = ['I have {}. What can I cook?', 'Give me a simple recipe with {}.', 'What can I make with {}?', 'Suggest a quick dinner with {}.', 'Can I combine {} in one dish?', 'Make a shopping list for a meal with {}.']
CITIES = split("""Paris|Rome|Berlin|Madrid|Lisbon|Vienna|Prague|London|Dublin|Edinburgh|Amsterdam|Brussels|Copenhagen|Oslo|Helsinki|Warsaw|Athens|Istanbul|Cairo|Marrakesh|Cape Town|Dubai|Mumbai|Delhi|Bangkok|
Singapore|Hanoi|Tokyo|Osaka|Seoul|Beijing|Shanghai|Hong Kong|Sydney|Melbourne|Auckland|New York|Boston|Chicago|San Francisco|Los Angeles|Seattle|Toronto|Montreal|Vancouver|Mexico City|Havana|Lima|
Buenos Aires|Rio de Janeiro|Santiago|Bogotá|Venice|Florence|Naples|Barcelona|Seville|Porto|Hamburg|Munich|Zurich|Geneva|Krakow|Reykjavik|Tallinn|Riga|Vilnius|Bucharest|Sofia|Belgrade|Zagreb""")
CITY_FORMS = ['What should I see in {}?', 'Plan a one-day trip to {}.', 'Plan a weekend in {}.', 'What is {} known for?', 'Tell me about {}.', 'What food should I try in {}?', 'When is the best time to visit {}?',
              'Write a postcard from {}.', 'Is {} good for a trip with children?', 'What should I pack for {} in winter?', 'Describe {} in two sentences.', 'Give me three tips for a visit to {}.',
              'How do people get around in {}?', 'Write a short travel ad for {}.']
NAME_KINDS = split("""a cat|a dog|a goldfish|a parrot|a bakery|a coffee shop|a bookshop|a rock band|a football team|a blog about travel|a podcast about history|a cooking app|a robot|a spaceship|a sailing boat|a dragon in a story|
a wizard|a detective|a village in a fantasy story|a perfume|a garden café|a chess club|a science project|a newsletter|a small company that repairs bicycles|a flower shop|a toy shop|a pizza place|a tea brand|a running group""")
NAME_FORMS = ['Suggest a name for {}.', 'Give me five names for {}.', 'I need a funny name for {}.', 'Suggest three short names for {} and say why.', 'What is a good slogan for {}?']
ADVICE = split("""quit my job|buy a used car|rent or buy a flat|learn the piano at forty|get a dog|adopt a cat|move to another city|study abroad|learn Python or JavaScript first|use tabs or spaces|
go to bed earlier|eat less sugar|run every day|lend money to a friend|tell my friend the truth|take a gap year|work from home|use a password manager|switch to Linux|start a company|buy a bicycle|
take an umbrella today|write by hand|delete social media|ask for a raise|change my major|invest in shares|keep a diary|become a vegetarian|take the train or the plane|accept the job offer|
cook for twenty guests|cut my own hair|give my child a phone|join a gym|write tests first|rewrite old code|use a framework|learn a third language|repair my old phone""")
ADVICE_FORMS = ['Should I {}?', 'I am thinking about whether to {}. What do you think?', 'What are the pros and cons if I {}?', 'Help me decide: should I {}?', 'What should I consider before I {}?']
ROLES = split("""a patient teacher|a pirate|a weather reporter|a museum guide|a strict editor|a friendly doctor|a tour guide|a sports commentator|a grandmother|a medieval knight|a robot|a chef|a lawyer|a coach|a philosopher|a scientist|a poet|a news anchor""")
ROLE_ASKS = split("""explain why we sleep|describe a rainy day|give advice on studying|talk about breakfast|explain gravity|describe the sea|welcome guests|explain how to make tea|comment on a chess game|
say why reading matters|describe a sunset|explain what money is|talk about your day|explain the internet""")
SENTENCE_TASKS = split("""Rewrite this sentence more formally: {}|Make this sentence shorter: {}|Turn this into a question: {}|Rewrite in the past tense: {}|Rewrite in simple words: {}|Make it polite: {}|
Is the tone of this sentence positive, negative or neutral? "{}"|What is the subject of this sentence? "{}"|Find the verb: "{}"|Write a sentence that could follow this one: {}|
Translate to French: {}|Translate to Spanish: {}|Translate into German: "{}"|Paraphrase: {}|What does this sentence mean? "{}"|Write a headline from this sentence: {}|Make this sentence funny: {}|
Continue the story: {}|Rewrite this as if a child said it: {}|Write the opposite of this sentence: {}|Explain this sentence: "{}"|Put this in the future tense: {}|Make this sentence longer: {}|
Who or what is this sentence about? {}|Write a reply to someone who says: "{}"|Give me two keywords from this sentence: {}|Write this sentence as a JSON object with the key "text": {}""")
QUOTE_TASKS = split("""Summarize this in one sentence:\\n\\n{}|Summarize the text below in two sentences.\\n\\n{}|{}\\n\\nSummarize this.|What is this text about?\\n\\n{}|Explain this paragraph in simple words:\\n\\n{}|
Give this paragraph a title:\\n\\n{}|List the key points of this text:\\n\\n{}|Write one question that this text answers, and the answer:\\n\\n{}|Rewrite this paragraph in plain English:\\n\\n{}|
TL;DR:\\n{}|{}\\n\\nWhat does this mean?|What is the most important sentence here?\\n\\n{}|Extract three keywords from this text:\\n\\n{}|Write one sentence that could come after this paragraph:\\n\\n{}|
Make this shorter:\\n\\n{}|Who is this text written for?\\n\\n{}|Turn this into bullet points:\\n\\n{}|I don't understand this. Can you explain it?\\n\\n{}|Name the main topic of the following text in a few words.\\n\\n{}|
Rewrite this for a beginner:\\n\\n{}|Read this and tell me what I should remember:\\n\\n{}|Is this text about computers or about something else?\\n\\n{}|What can I learn from this?\\n\\n{}""")
FORMAT_ASKS = split("""Give me a JSON object that describes {}.|Describe {} as JSON with three keys.|Make a Markdown table with two columns about {}.|Write a numbered list of five facts about {}.|
List three things about {} as bullet points.|Describe {} in YAML.|Make a CSV with a header and three rows about {}.|Write an HTML list of three items about {}.""")
STORY_WHO = split("""a shy dragon|a lost kitten|a brave mouse|an old sailor|a curious robot|a girl who could fly|a boy with a magic pencil|two brothers|a tired baker|a talking tree|a lonely lighthouse keeper|
a small cloud|a clever fox|a young scientist|a forgetful wizard|a singing frog|a farmer|a king without a crown|a dog who loved books|a snowman|an ant|a moon traveller|a pianist|a postman|a twin sister|a goat|a gardener|
a whale|a clockmaker|a teddy bear""")
STORY_WHAT = split("""finds a secret door|learns to share|gets lost in the forest|wins a race|makes a new friend|saves a village|forgets a birthday|builds a boat|hears a strange sound|meets a stranger|loses a key|
plants a seed|wakes up in another world|travels by train|helps an old woman|tells a lie|finds a map|cannot sleep|opens a shop|breaks a cup|climbs a mountain|waits for rain|writes a letter|teaches a lesson|
learns to cook""")
STORY_FORMS = ['Write a very short story about {} who {}.', 'Tell me a story about {} who {}.', 'Write a four-sentence story: {} {}.', 'Write the first paragraph of a story in which {} {}.', 'Write a poem about {} who {}.',
               'Write a story of three sentences. {} {}.']
CHAT = split("""I had a long day at work.|My cat is ill.|I just finished my exams!|It's my birthday today.|I can't sleep.|I'm nervous about tomorrow.|I lost my keys again.|My friend is angry with me.|I'm learning to cook.|
I want to be more creative.|I don't know what to do this weekend.|It's raining all day.|I'm on a train right now.|I started running last week.|I just moved to a new city.|I burned my dinner.|I got a new job!|
I failed my driving test.|My sister is getting married.|I'm reading a great book.|I need a hobby.|I feel lonely.|I have a headache.|My computer is slow.|My plants are dying.|I'm afraid of flying.|I forgot my password.|
I want to save money.|I miss my family.|I'm so excited!|I'm waiting for the bus.|I'm planning a trip.|I broke a glass.|I'm stuck with my homework.|I cannot decide what to eat.|My phone fell into water.|
I have guests tonight and nothing to cook.|I would like to learn the guitar.|I spilled coffee on my shirt.|My neighbours are loud.|I have too many emails.|I want to write a book.|I'm proud of my daughter.|
I'm bored at work.|I got a bad grade.|The power went out.|I saw a fox this morning.|It snowed last night!|We are having a baby.|I'm on a diet.|I love Mondays.|I think I have a cold.|I want to quit smoking.|
My bike was stolen.|I'm going to the dentist.|I'm homesick.|We won the match!|I cannot find my glasses.|I'm making soup.|I have a job interview tomorrow.|What should I wear today?|What should I eat tonight?|
Recommend a film.|Recommend a book.|What's your favourite colour?|Do you like music?|Tell me something nice.|Say something in French.|Give me a compliment.|Motivate me.|Cheer me up.|Let's play a game.|
Ask me a riddle.|Tell me a riddle.|Surprise me.|What is the meaning of life?|Do you believe in ghosts?|What would you do with a million dollars?|Which superpower would you choose?|Tea or coffee?|
Cats or dogs?|Is a hot dog a sandwich?|Which came first, the chicken or the egg?|Give me a word of the day.|Teach me a new word.|Give me a quote.|Write me a to-do list for Saturday.|Plan my morning.""")
CHAT_VARIANTS = ['{}', '{}', '{} What do you think?', '{} Any advice?', 'Hi! {}', '{} Help!', 'hey, {}', '{} Please answer in one sentence.']
