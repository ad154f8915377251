"""Own tables: questions with a wrong premise, and more questions with answers. Facts only, own wording."""
from own_facts import table

# question with a wrong premise => answer that says so
PREMISES = table("""
Why is the sky green?|The sky is not green. On a clear day it looks blue, because air scatters blue light more than red.
Why is grass blue?|Grass is not blue; it is green, because of a pigment called chlorophyll.
Why do humans have three eyes?|Humans have two eyes, not three.
Why does the sun rise in the west?|It doesn't. The sun rises in the east and sets in the west.
What is the capital of Africa?|Africa is a continent, so it has no capital. Its countries have capitals, such as Cairo in Egypt.
What is the capital of Europe?|Europe is a continent and has no capital. Many institutions of the European Union are in Brussels.
What is the capital of Asia?|Asia is a continent, not a country, so it has no capital.
What is the capital of Antarctica?|Antarctica has no capital; it belongs to no country and has only research stations.
Who is the king of the United States?|The United States has no king. Its head of state is a president.
Who is the president of England?|England has no president. The United Kingdom has a king and a prime minister.
Who was the first king of the United States?|There has never been a king of the United States. The first president was George Washington.
When did the Eiffel Tower move to London?|It never did. The Eiffel Tower has always stood in Paris.
In which year did the Moon crash into the Earth?|That has not happened. The Moon still orbits the Earth.
How long does it take to drive from London to the Moon?|You cannot drive to the Moon; there is no road. Astronauts needed about three days by rocket.
How do I drive from Australia to Japan?|You can't, because the sea lies between them. People fly or go by ship.
Can I take a train from New York to London?|No. The Atlantic Ocean lies between them, so you fly or go by ship.
How many moons does the Sun have?|The Sun is a star and has no moons. Planets orbit it.
How many corners does a circle have?|A circle is round and has no corners.
Which side of a circle is the longest?|A circle has no sides.
What is the largest even prime number after 2?|There is none. The number 2 is the only even prime number.
What is the last number?|There is no last number. You can always add one.
What is the biggest number in the world?|There is no biggest number, because you can always add one.
How many days does the month of Monday have?|Monday is a day of the week, not a month.
What month comes after Friday?|Friday is a day, not a month. The day after Friday is Saturday.
On which day is the 30th of February?|February never has 30 days, so that date does not exist.
What happens on February 31?|There is no February 31. February has 28 or 29 days.
What colour is the letter A?|A letter has no colour of its own; it has the colour of the ink or light it is shown in.
How much does the number seven weigh?|A number has no weight.
What does silence sound like?|Silence is the absence of sound, so it sounds like nothing.
What is north of the North Pole?|Nothing. At the North Pole every direction is south.
Which ocean lies between Germany and Poland?|None. Germany and Poland share a border on land.
When did Shakespeare write Harry Potter?|He did not. J. K. Rowling wrote Harry Potter; Shakespeare lived about 400 years earlier.
Which phone did Napoleon use?|None. Napoleon died in 1821, and the telephone came in 1876.
What did Julius Caesar post on the internet?|Nothing. Caesar lived more than two thousand years before the internet.
Which car did Cleopatra drive?|None. Cars came about 1,900 years after Cleopatra.
Who won the football World Cup in 1066?|There was no World Cup then. The first one took place in 1930.
How did the dinosaurs build the pyramids?|They did not. The ancient Egyptians built the pyramids, millions of years after the dinosaurs.
Why did the Romans land on the Moon?|The Romans did not. American astronauts were the first there, in 1969.
Why do cows lay eggs?|Cows do not lay eggs. They are mammals and give birth to calves.
Where do horses build their nests?|Horses do not build nests. They live in herds and rest standing or lying on the ground.
How do fish breathe with their lungs?|Most fish have no lungs. They take oxygen from the water with gills.
How many wings does a dog have?|A dog has no wings. It has four legs.
How many legs does a snake have?|A snake has no legs.
How many legs does a fish have?|A fish has no legs. It has fins.
What do trees eat for breakfast?|Trees do not eat meals. They make food from light, water and air.
Why do stones need water to live?|Stones do not live, so they need no water.
How do I boil ice cream until it freezes?|Boiling would melt it. Ice cream gets hard when it is frozen.
How can I make fire out of water?|You can't. Water does not burn; it puts many fires out.
Why is ice hotter than fire?|It is not. Ice is cold and fire is hot.
Why is one kilogram of iron heavier than one kilogram of feathers?|It is not. Both weigh exactly one kilogram; the feathers only take more space.
Which is heavier, a kilo of gold or a kilo of wool?|Neither. Both weigh one kilogram.
Why does 2 + 2 make 5?|It doesn't. 2 + 2 makes 4.
Since 10 is smaller than 7, what is bigger?|10 is not smaller than 7. 10 is the bigger number.
Why are tomatoes a kind of fish?|They are not. Tomatoes are fruits of a plant.
What language do people speak in the ocean?|Nobody lives in the open ocean, so no language belongs to it.
Which airline flies to Mars?|None. No airline flies to Mars; only robotic probes have landed there.
How do I get to the middle of the Earth by bus?|You can't. Nobody can travel to the middle of the Earth.
When did humans first live on Jupiter?|Never. Jupiter is a gas planet, and no human has been there.
What is the name of the king of France today?|France has no king today. It is a republic with a president.
Which team won yesterday's match between chess and football?|Chess and football are different games, so they cannot play each other.
How many teeth does a chair have?|A chair has no teeth.
What is the mother of a stone called?|A stone has no mother; it is not a living thing.
Why do birds have fur?|Birds have feathers, not fur.
Why do spiders have six legs?|Spiders have eight legs. Insects have six.
Why is a whale a fish?|It is not. A whale is a mammal: it breathes air and feeds its young with milk.
Why can penguins fly so far?|Penguins cannot fly. They swim with their wings.
How does a snail run so fast?|It doesn't. A snail is one of the slowest animals.
Why is the Sahara so wet?|It is not. The Sahara is a desert and very dry.
Why is Antarctica so warm?|It is not warm. Antarctica is the coldest continent.
Why is chocolate a vegetable?|It is not a vegetable. Chocolate is a sweet made from cocoa beans.
What is the boiling point of a stone in a kettle?|A stone does not boil in a kettle. Rock only melts at many hundred degrees.
Who discovered the colour of Monday?|Nobody. Monday is a day and has no colour.
Which language is spoken in the country of Paris?|Paris is a city, not a country. It is the capital of France, where people speak French.
What is the population of the planet Sun?|The Sun is a star, and nobody lives there.
How many hours are in a kilometre?|None. Hours measure time, and kilometres measure distance.
How many litres are in a metre?|Litres measure volume, and metres measure length, so one cannot be turned into the other.
How many minutes are in a kilogram?|None. Minutes measure time, and kilograms measure mass.
""")
# plain facts: questions (variants) => answer
MORE_QA = """
What is the largest cat?|Which cat is the biggest? => The tiger is the largest cat.
What do you call an animal that eats only plants?|What is a herbivore? => An animal that eats only plants is a herbivore.
What do you call an animal that eats meat?|What is a carnivore? => An animal that eats mainly meat is a carnivore.
What is an omnivore? => An omnivore eats both plants and animals. People, pigs and bears are omnivores.
What is a vertebrate? => A vertebrate is an animal with a backbone, such as a fish, a frog, a snake, a bird or a mammal.
What makes an animal a mammal?|What is a mammal? => A mammal has hair or fur, breathes with lungs and feeds its young with milk.
What makes an animal a bird?|What is a bird? => A bird has feathers, a beak and two wings, and it lays eggs.
What is a reptile? => A reptile has dry scales and breathes with lungs; most lay eggs. Snakes, lizards and turtles are reptiles.
What is an amphibian? => An amphibian, such as a frog, lives partly in water and partly on land.
Do all birds fly?|Can all birds fly? => No. Most birds fly, but ostriches, emus, kiwis and penguins cannot.
Do all fish lay eggs? => No. Most fish lay eggs, but some, such as guppies, give birth to live young.
Do all mammals live on land? => No. Whales, dolphins and seals are mammals that live in the sea.
Which mammals lay eggs? => The platypus and the echidnas are mammals that lay eggs.
Which mammal can fly? => The bat is the only mammal that can truly fly.
Are there birds that swim but do not fly? => Yes. Penguins swim very well and cannot fly.
What is the difference between a fruit and a vegetable? => In botany a fruit is the part with the seeds. Other edible parts, such as roots, stems and leaves, are vegetables.
Is a strawberry a berry? => In botany a strawberry is not a true berry, although its name says so.
Is a banana a berry? => Yes, in botany a banana is a berry.
Is a peanut a nut? => No, a peanut is a legume, like beans and peas.
What is yeast? => Yeast is a tiny fungus. It makes gas in dough, so that bread rises.
What is baking powder for? => Baking powder makes gas when it is wet and hot, so that cakes rise.
What is tofu made of? => Tofu is made from soybeans.
What is hummus made of? => Hummus is made from chickpeas, sesame paste, lemon and garlic.
What is guacamole? => Guacamole is a dip made of avocado, lime and salt.
What is sushi? => Sushi is a Japanese dish of rice with vinegar, often with fish or vegetables.
What is pesto? => Pesto is a sauce of basil, pine nuts, garlic, cheese and olive oil.
How long do I boil a soft egg? => A soft egg takes about five minutes in boiling water.
How long do I boil a hard egg? => A hard egg takes about ten minutes in boiling water.
Where does chocolate come from? => Chocolate is made from the beans of the cacao tree.
Where does cork come from? => Cork comes from the bark of the cork oak.
Where does silk come from? => Silk is spun by silkworms.
Where does leather come from? => Leather is made from the skins of animals.
Where does rubber come from? => Natural rubber comes from the milky juice of the rubber tree.
Where does paper come from? => Paper is made mostly from wood fibres.
What is bronze made of? => Bronze is a mixture of copper and tin.
What is brass made of? => Brass is a mixture of copper and zinc.
What is steel made of? => Steel is iron with a little carbon.
What is concrete made of? => Concrete is made of cement, sand, gravel and water.
What is glass made of? => Glass is made mainly from sand, soda and lime.
What is the Milky Way? => The Milky Way is the galaxy that we live in. It has more than a hundred billion stars.
What is a comet? => A comet is a lump of ice and dust that grows a tail when it comes near the Sun.
What is an eclipse of the Sun? => In an eclipse of the Sun, the Moon stands between the Sun and the Earth and covers the Sun.
How long does the Moon need to orbit the Earth? => The Moon needs about 27 days to orbit the Earth.
How far away is the Moon? => The Moon is about 384,000 kilometres from the Earth.
How far away is the Sun? => The Sun is about 150 million kilometres from the Earth.
How old is the Earth? => The Earth is about 4.5 billion years old.
How many people live on Earth? => About eight billion people live on Earth.
What is the equator? => The equator is the imaginary line around the middle of the Earth.
What is a peninsula? => A peninsula is land with water on three sides.
What is an island? => An island is land with water all around it.
What is a delta? => A delta is the flat land where a river splits before it reaches the sea.
What is a glacier? => A glacier is a large, slowly moving mass of ice.
What is an earthquake? => An earthquake is a shaking of the ground, when parts of the Earth's crust move.
What is a volcano? => A volcano is an opening in the Earth's crust through which hot rock, ash and gas come out.
What is a desert? => A desert is a region with very little rain.
Which river flows through Paris? => The Seine flows through Paris.
Which river flows through London? => The Thames flows through London.
Which river flows through Vienna? => The Danube flows through Vienna.
Which river flows through Cairo? => The Nile flows through Cairo.
Which river flows through Rome? => The Tiber flows through Rome.
Which mountains are between France and Spain? => The Pyrenees are between France and Spain.
Which mountains are in Switzerland? => The Alps are in Switzerland.
Which sea is between Europe and Africa? => The Mediterranean Sea is between Europe and Africa.
Which strait separates Spain and Morocco? => The Strait of Gibraltar separates Spain and Morocco.
Which country has the shape of a boot? => Italy has the shape of a boot.
Which country gave the Statue of Liberty to the USA? => France gave it.
What is the national animal of Australia? => The kangaroo is often named as the national animal of Australia.
In which city is the Louvre? => The Louvre is in Paris.
In which city is the Kremlin? => The Kremlin is in Moscow.
In which city is the Acropolis? => The Acropolis is in Athens.
In which country is Mount Fuji? => Mount Fuji is in Japan.
In which country is Kilimanjaro? => Kilimanjaro is in Tanzania.
What is a sonnet? => A sonnet is a poem of fourteen lines.
What is a haiku? => A haiku is a Japanese poem of three lines with 5, 7 and 5 syllables.
What is a novel? => A novel is a long story in prose.
What is a fable? => A fable is a short story, often with animals, that teaches a lesson.
What is a metaphor? => A metaphor describes one thing as if it were another, as in "time is money".
What is a noun? => A noun is a word for a person, a place, a thing or an idea.
What is a verb? => A verb is a word for an action or a state, such as run or be.
What is an adjective? => An adjective describes a noun, as "red" in "a red car".
What is an adverb? => An adverb describes a verb, an adjective or another adverb, as "slowly" in "walk slowly".
What is a pronoun? => A pronoun stands for a noun, such as he, she, it or they.
What is a preposition? => A preposition shows how things relate, such as in, on, under or with.
What is a synonym? => A synonym is a word with nearly the same meaning as another word.
What is an antonym? => An antonym is a word with the opposite meaning.
What is a palindrome? => A palindrome reads the same forwards and backwards, such as "level".
What does "e.g." mean? => "E.g." means "for example".
What does "i.e." mean? => "I.e." means "that is".
What does "etc." mean? => "Etc." means "and so on".
What does ASAP mean? => ASAP means "as soon as possible".
What does RSVP mean? => RSVP asks you to answer an invitation. It comes from French: "répondez s'il vous plaît".
What does FAQ stand for? => FAQ stands for "frequently asked questions".
What does USB stand for? => USB stands for "Universal Serial Bus".
What does CPU stand for? => CPU stands for "central processing unit".
What does RAM stand for? => RAM stands for "random access memory".
What does URL stand for? => URL stands for "uniform resource locator"; it is a web address.
What does PDF stand for? => PDF stands for "Portable Document Format".
What does NASA stand for? => NASA stands for "National Aeronautics and Space Administration".
What does the EU stand for? => EU stands for the European Union.
How many players are in a football team?|How many players does a soccer team have on the field? => A football team has eleven players on the field.
How many players are in a basketball team on the court? => Each basketball team has five players on the court.
How many squares does a chessboard have? => A chessboard has 64 squares.
How many pieces does each player have in chess? => Each chess player starts with 16 pieces.
How many rings are on the Olympic flag? => The Olympic flag has five rings.
How often do the summer Olympic Games take place? => The summer Olympic Games take place every four years.
How many strings does a guitar have? => A usual guitar has six strings.
How many strings does a violin have? => A violin has four strings.
How many keys does a piano have? => A usual piano has 88 keys.
How many cards are in a deck? => A usual deck has 52 cards.
How many zeros does a million have? => A million has six zeros.
How many zeros does a thousand have? => A thousand has three zeros.
How many centimetres are in a metre? => A metre has 100 centimetres.
How many metres are in a kilometre? => A kilometre has 1,000 metres.
How many grams are in a kilogram? => A kilogram has 1,000 grams.
How many millilitres are in a litre? => A litre has 1,000 millilitres.
How many inches are in a foot? => A foot has 12 inches.
How many ounces are in a pound? => A pound has 16 ounces.
How many kilometres is a mile? => A mile is about 1.61 kilometres.
How many bits are in a byte? => A byte has 8 bits.
How many quarters are in a whole? => A whole has four quarters.
How many sides does a cube have?|How many faces does a cube have? => A cube has six faces.
How many hearts does an octopus have? => An octopus has three hearts.
How many chambers does the human heart have? => The human heart has four chambers.
How many senses do people have? => People are often said to have five senses: sight, hearing, smell, taste and touch.
What are the five senses? => The five senses are sight, hearing, smell, taste and touch.
What is normal body temperature? => Normal body temperature is about 37 °C (98.6 °F).
Why do we have fever? => A fever helps the body to fight germs.
What is an allergy? => An allergy is a strong reaction of the body to something harmless, such as pollen.
What does a dentist do? => A dentist looks after teeth.
What does a vet do? => A vet treats sick animals.
What does a plumber do? => A plumber puts in and repairs water pipes.
What does an architect do? => An architect designs buildings.
What does a librarian do? => A librarian looks after books and helps readers to find them.
What does a judge do? => A judge decides in court.
Who repairs cars? => A mechanic repairs cars.
Who bakes bread? => A baker bakes bread.
Who flies a plane? => A pilot flies a plane.
What do you wear in the rain? => In the rain you wear a raincoat or carry an umbrella.
What should I wear when it is cold? => Wear warm layers, a coat, a hat and gloves.
What do I need to make tea? => You need tea, hot water and a cup; some people add milk, sugar or lemon.
What should I do if I cut my finger? => Rinse the cut with clean water, press on it with a clean cloth, and cover it with a plaster. See a doctor if it is deep.
What should I do in a fire? => Leave the building at once, do not use lifts, and call the fire brigade.
Which number do I call in an emergency in Europe? => In Europe you call 112.
Which number do I call in an emergency in the USA? => In the USA you call 911.
What is a budget? => A budget is a plan for what money comes in and what it is spent on.
What is interest? => Interest is the price paid for borrowing money.
What is inflation? => Inflation means that prices rise over time.
What is a tax? => A tax is money that people and companies pay to the state.
What is a vote? => A vote is a choice that a person makes in an election.
What is a constitution? => A constitution is the basic law of a state.
What is open source software? => Open source software comes with its source code, which anyone may read, change and share.
What is a web browser? => A web browser is a program that shows web pages.
What is a search engine? => A search engine finds web pages that fit the words you type.
What is spam? => Spam is unwanted e-mail, often advertising.
What is a backup? => A backup is a copy of data that is kept in case the original is lost.
What is a compiler? => A compiler translates source code into code that a machine can run.
What is an algorithm? => An algorithm is a list of exact steps that solve a problem.
What is a bug in software? => A bug is a mistake in a program that makes it behave wrongly.
What is Git? => Git is a version control system: it records the history of files and lets people work on them together.
What is Linux? => Linux is a free operating system kernel; systems such as Debian and Ubuntu are built on it.
What is a language model? => A language model is a program that predicts the next word of a text. That lets it answer questions and write.
What is machine learning? => Machine learning means that a program learns patterns from examples instead of fixed rules.
"""
