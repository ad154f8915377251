"""Own tables: animals, food, things, places, deeds, claims. Facts only, own wording."""


def table(text):
    return [tuple(c.strip() for c in line.split('|')) for line in text.strip().split('\n')]


# name | plural | class | legs | flies | swims well | lays eggs | cover | breathes with | eats | lives | weight in kg | top speed in km/h
ANIMALS = table("""
dog|dogs|mammal|4|n|y|n|fur|lungs|meat and dog food|with people|25|45
cat|cats|mammal|4|n|n|n|fur|lungs|meat|with people|4|48
horse|horses|mammal|4|n|y|n|hair|lungs|grass and hay|on farms and grassland|500|70
cow|cows|mammal|4|n|n|n|hair|lungs|grass and hay|on farms|650|40
pig|pigs|mammal|4|n|y|n|bristles|lungs|roots, grain and scraps|on farms|200|17
sheep|sheep|mammal|4|n|n|n|wool|lungs|grass|on farms and hills|70|40
goat|goats|mammal|4|n|n|n|hair|lungs|leaves and grass|on farms and mountains|60|25
donkey|donkeys|mammal|4|n|n|n|hair|lungs|grass and straw|on farms|200|50
rabbit|rabbits|mammal|4|n|n|n|fur|lungs|grass and vegetables|in burrows|2|40
mouse|mice|mammal|4|n|n|n|fur|lungs|seeds and scraps|in fields and houses|0.02|12
rat|rats|mammal|4|n|y|n|fur|lungs|almost anything|near people|0.3|13
squirrel|squirrels|mammal|4|n|n|n|fur|lungs|nuts and seeds|in trees|0.4|20
hedgehog|hedgehogs|mammal|4|n|n|n|spines|lungs|insects and worms|in gardens and hedges|0.8|6
fox|foxes|mammal|4|n|n|n|fur|lungs|mice, birds and berries|in woods and towns|7|50
wolf|wolves|mammal|4|n|y|n|fur|lungs|meat|in forests|40|60
brown bear|brown bears|mammal|4|n|y|n|fur|lungs|berries, roots and fish|in forests|300|50
polar bear|polar bears|mammal|4|n|y|n|fur|lungs|seals|in the Arctic|450|40
lion|lions|mammal|4|n|n|n|fur|lungs|meat|on the African savanna|180|80
tiger|tigers|mammal|4|n|y|n|fur|lungs|meat|in Asian forests|200|60
leopard|leopards|mammal|4|n|y|n|fur|lungs|meat|in Africa and Asia|60|58
cheetah|cheetahs|mammal|4|n|n|n|fur|lungs|meat|on the African savanna|50|110
elephant|elephants|mammal|4|n|y|n|thick skin|lungs|grass, leaves and bark|in Africa and Asia|5000|40
giraffe|giraffes|mammal|4|n|n|n|hair|lungs|leaves|on the African savanna|1000|60
zebra|zebras|mammal|4|n|n|n|hair|lungs|grass|on the African savanna|300|65
camel|camels|mammal|4|n|n|n|hair|lungs|dry plants|in deserts|500|65
rhinoceros|rhinoceroses|mammal|4|n|n|n|thick skin|lungs|grass and leaves|in Africa and Asia|2000|50
hippopotamus|hippopotamuses|mammal|4|n|y|n|thick skin|lungs|grass|in African rivers|1500|30
kangaroo|kangaroos|mammal|4|n|n|n|fur|lungs|grass|in Australia|60|60
koala|koalas|mammal|4|n|n|n|fur|lungs|eucalyptus leaves|in Australian trees|9|30
panda|pandas|mammal|4|n|n|n|fur|lungs|bamboo|in Chinese mountain forests|100|30
monkey|monkeys|mammal|4|n|n|n|fur|lungs|fruit, leaves and insects|in trees|8|55
gorilla|gorillas|mammal|4|n|n|n|hair|lungs|leaves and fruit|in African forests|150|40
deer|deer|mammal|4|n|y|n|hair|lungs|grass and leaves|in forests|100|65
beaver|beavers|mammal|4|n|y|n|fur|lungs|bark and plants|in rivers and ponds|20|10
otter|otters|mammal|4|n|y|n|fur|lungs|fish|in rivers and on coasts|10|12
bat|bats|mammal|2|y|n|n|fur|lungs|insects or fruit|in caves and roofs|0.02|60
whale|whales|mammal|0|n|y|n|smooth skin|lungs|krill, fish or squid|in the sea|40000|50
dolphin|dolphins|mammal|0|n|y|n|smooth skin|lungs|fish and squid|in the sea|200|35
seal|seals|mammal|0|n|y|n|fur|lungs|fish|on coasts and in the sea|100|25
hamster|hamsters|mammal|4|n|n|n|fur|lungs|seeds and vegetables|in burrows or as pets|0.1|6
mole|moles|mammal|4|n|n|n|fur|lungs|worms|under the ground|0.1|4
hen|hens|bird|2|n|n|y|feathers|lungs|grain, insects and worms|on farms|2|14
duck|ducks|bird|2|y|y|y|feathers|lungs|plants, insects and small fish|on ponds|1.2|80
goose|geese|bird|2|y|y|y|feathers|lungs|grass|on farms and lakes|4|80
swan|swans|bird|2|y|y|y|feathers|lungs|water plants|on lakes|10|80
turkey|turkeys|bird|2|n|n|y|feathers|lungs|grain and insects|on farms|8|40
penguin|penguins|bird|2|n|y|y|feathers|lungs|fish|in the southern half of the world|20|30
ostrich|ostriches|bird|2|n|n|y|feathers|lungs|plants|on African plains|110|70
emu|emus|bird|2|n|n|y|feathers|lungs|plants and insects|in Australia|40|50
kiwi|kiwis|bird|2|n|n|y|feathers|lungs|worms and insects|in New Zealand|2.5|19
owl|owls|bird|2|y|n|y|feathers|lungs|mice|in woods and barns|1|60
eagle|eagles|bird|2|y|n|y|feathers|lungs|fish, birds and small mammals|in mountains|5|120
sparrow|sparrows|bird|2|y|n|y|feathers|lungs|seeds|near people|0.03|40
robin|robins|bird|2|y|n|y|feathers|lungs|worms and berries|in gardens|0.02|30
crow|crows|bird|2|y|n|y|feathers|lungs|almost anything|in fields and towns|0.5|50
parrot|parrots|bird|2|y|n|y|feathers|lungs|seeds, nuts and fruit|in warm forests|0.4|60
pigeon|pigeons|bird|2|y|n|y|feathers|lungs|seeds and crumbs|in towns|0.3|80
flamingo|flamingos|bird|2|y|n|y|feathers|lungs|algae and small shrimps|in shallow lakes|3|55
hummingbird|hummingbirds|bird|2|y|n|y|feathers|lungs|nectar|in the Americas|0.004|50
salmon|salmon|fish|0|n|y|y|scales|gills|small fish and insects|in rivers and the sea|5|30
tuna|tuna|fish|0|n|y|y|scales|gills|smaller fish|in the sea|150|70
goldfish|goldfish|fish|0|n|y|y|scales|gills|flakes and plants|in ponds and tanks|0.1|2
trout|trout|fish|0|n|y|y|scales|gills|insects and small fish|in cold rivers|2|20
eel|eels|fish|0|n|y|y|slimy skin|gills|small water animals|in rivers and the sea|3|10
seahorse|seahorses|fish|0|n|n|y|bony plates|gills|tiny shrimps|in warm seas|0.01|1
crocodile|crocodiles|reptile|4|n|y|y|scales|lungs|fish and mammals|in warm rivers|400|30
snake|snakes|reptile|0|n|y|y|scales|lungs|mice, frogs and eggs|in most warm places|2|15
lizard|lizards|reptile|4|n|n|y|scales|lungs|insects|in warm dry places|0.1|25
tortoise|tortoises|reptile|4|n|n|y|a shell|lungs|grass and leaves|on land|5|0.5
sea turtle|sea turtles|reptile|4|n|y|y|a shell|lungs|sea grass and jellyfish|in warm seas|120|35
frog|frogs|amphibian|4|n|y|y|moist skin|lungs and skin|insects|in ponds and wet grass|0.05|16
toad|toads|amphibian|4|n|y|y|warty skin|lungs and skin|insects and worms|in gardens and woods|0.1|8
newt|newts|amphibian|4|n|y|y|moist skin|lungs and skin|insects and worms|in ponds|0.01|2
bee|bees|insect|6|y|n|y|hairs|air tubes|nectar and pollen|in hives|0.0001|25
ant|ants|insect|6|n|n|y|a hard shell|air tubes|seeds and insects|in nests|0.000005|0.3
butterfly|butterflies|insect|6|y|n|y|tiny scales|air tubes|nectar|in meadows|0.0005|20
mosquito|mosquitoes|insect|6|y|n|y|a thin shell|air tubes|nectar and blood|near water|0.000003|2
ladybird|ladybirds|insect|6|y|n|y|a hard shell|air tubes|aphids|on plants|0.00002|24
grasshopper|grasshoppers|insect|6|y|n|y|a hard shell|air tubes|grass|in meadows|0.002|13
spider|spiders|arachnid|8|n|n|y|hairs|book lungs and air tubes|insects|in webs and corners|0.001|2
scorpion|scorpions|arachnid|8|n|n|y|a hard shell|book lungs|insects|in warm dry places|0.02|4
crab|crabs|crustacean|10|n|y|y|a hard shell|gills|algae and small animals|on coasts|1|10
lobster|lobsters|crustacean|10|n|y|y|a hard shell|gills|small sea animals|on the sea floor|2|20
snail|snails|mollusc|0|n|n|y|a shell|a simple lung|leaves|in gardens|0.01|0.05
octopus|octopuses|mollusc|0|n|y|y|soft skin|gills|crabs|on the sea floor|5|40
earthworm|earthworms|worm|0|n|n|y|moist skin|its skin|dead leaves and soil|in the soil|0.005|0.03
jellyfish|jellyfish|jellyfish|0|n|n|y|jelly-like skin|its skin|tiny sea animals|in the sea|2|8
""")
YOUNG = dict(dog='puppy', cat='kitten', horse='foal', cow='calf', pig='piglet', sheep='lamb', goat='kid', rabbit='bunny or kit', fox='cub', wolf='pup', lion='cub', tiger='cub', elephant='calf', giraffe='calf',
             kangaroo='joey', koala='joey', deer='fawn', whale='calf', dolphin='calf', seal='pup', hen='chick', duck='duckling', goose='gosling', swan='cygnet', owl='owlet', eagle='eaglet', frog='tadpole', butterfly='caterpillar')
SOUND = dict(dog='barks', cat='meows', horse='neighs', cow='moos', pig='oinks', sheep='bleats', goat='bleats', donkey='brays', lion='roars', wolf='howls', hen='clucks', duck='quacks', goose='honks', owl='hoots', crow='caws',
             frog='croaks', bee='buzzes', snake='hisses', mouse='squeaks', pigeon='coos', elephant='trumpets')
# name | colour | fruit in botany | fruit or vegetable in the kitchen | grows | taste
FOODS = table("""
an apple|red, green or yellow|y|fruit|on a tree|sweet
a pear|green or yellow|y|fruit|on a tree|sweet
a plum|purple or yellow|y|fruit|on a tree|sweet
a cherry|red|y|fruit|on a tree|sweet
a peach|orange and pink|y|fruit|on a tree|sweet
an orange|orange|y|fruit|on a tree|sweet and a little sour
a lime|green|y|fruit|on a tree|sour
a banana|yellow|y|fruit|on a large plant|sweet
a mango|orange inside|y|fruit|on a tree|sweet
a kiwi fruit|green inside|y|fruit|on a vine|sweet and sour
a grape|green or purple|y|fruit|on a vine|sweet
a blueberry|blue|y|fruit|on a bush|sweet
a raspberry|red|y|fruit|on a bush|sweet and sour
a pineapple|yellow inside|y|fruit|on a low plant|sweet
a melon|green or yellow|y|fruit|on a vine on the ground|sweet
a tomato|red|y|vegetable|on a vine|mild and a little sour
a cucumber|green|y|vegetable|on a vine|mild
a pumpkin|orange|y|vegetable|on a vine on the ground|mild
an aubergine|purple|y|vegetable|on a small plant|mild
a pepper|red, yellow or green|y|vegetable|on a small plant|mild or hot
a potato|brown outside and yellow inside|n|vegetable|under the ground|mild
a carrot|orange|n|vegetable|under the ground|sweet and mild
an onion|brown, white or red|n|vegetable|in the ground|sharp
a beetroot|dark red|n|vegetable|in the ground|sweet and earthy
a radish|red|n|vegetable|in the ground|sharp
a cabbage|green or red|n|vegetable|on the ground|mild
a lettuce|green|n|vegetable|on the ground|mild
a leek|green and white|n|vegetable|in the ground|mild
""")
# name | made of | kind | used to | weight in kg | floats | needs electricity | has wheels
THINGS = table("""
a hammer|steel and wood|tool|drive nails|0.7|n|n|n
a saw|steel|tool|cut wood|0.5|n|n|n
a screwdriver|steel and plastic|tool|turn screws|0.2|n|n|n
a spade|steel and wood|tool|dig holes|2|n|n|n
a bicycle|metal and rubber|vehicle|ride|14|n|n|y
a car|metal, glass and plastic|vehicle|drive on roads|1400|n|n|y
a bus|metal and glass|vehicle|carry many people|12000|n|n|y
a train|metal|vehicle|travel on rails|300000|n|n|y
a truck|metal|vehicle|carry goods|15000|n|n|y
a boat|wood or metal|vehicle|travel on water|500|y|n|n
a plane|metal|vehicle|fly|60000|n|n|y
a chair|wood|piece of furniture|sit on|6|y|n|n
a table|wood|piece of furniture|put things on|25|y|n|n
a bed|wood and cloth|piece of furniture|sleep in|60|y|n|n
a shelf|wood|piece of furniture|store books|20|y|n|n
a lamp|metal and glass|household item|give light|2|n|y|n
a fridge|metal and plastic|household machine|keep food cold|70|n|y|n
a washing machine|metal|household machine|wash clothes|70|n|y|n
a kettle|metal or plastic|household item|boil water|1.2|n|y|n
a toaster|metal|household machine|toast bread|1.5|n|y|n
a television|plastic and glass|household machine|watch films|12|n|y|n
a computer|metal and plastic|machine|work with data|5|n|y|n
a phone|glass and metal|device|talk to people far away|0.2|n|y|n
a clock|metal and plastic|household item|tell the time|0.5|n|n|n
a spoon|metal|kitchen item|eat soup|0.05|n|n|n
a knife|steel|kitchen item|cut food|0.1|n|n|n
a plate|ceramic|kitchen item|put food on|0.5|n|n|n
a cup|ceramic|kitchen item|drink tea|0.3|n|n|n
a pan|metal|kitchen item|fry eggs|1|n|n|n
a key|metal|household item|open a lock|0.02|n|n|n
a candle|wax|household item|give light without electricity|0.2|y|n|n
a pencil|wood and graphite|writing tool|draw and write|0.01|y|n|n
a pen|plastic and metal|writing tool|write with ink|0.01|n|n|n
a book|paper|thing to read|read|0.5|n|n|n
a newspaper|paper|thing to read|read the news|0.2|n|n|n
a ball|rubber or leather|toy|play games|0.4|y|n|n
a kite|paper or cloth|toy|fly in the wind|0.2|y|n|n
a piano|wood and metal|musical instrument|play music|250|n|n|n
a violin|wood|musical instrument|play music|0.5|y|n|n
a drum|wood and skin|musical instrument|play rhythms|5|y|n|n
a coat|cloth|piece of clothing|keep warm|1.5|n|n|n
a shoe|leather and rubber|piece of clothing|protect the foot|0.5|n|n|n
a hat|felt or cloth|piece of clothing|cover the head|0.2|y|n|n
an umbrella|cloth and metal|household item|stay dry in the rain|0.4|n|n|n
a brick|clay|building material|build walls|3|n|n|n
a stone|rock|natural thing|build walls|2|n|n|n
a coin|metal|piece of money|pay|0.008|n|n|n
a feather|keratin|natural thing|keep a bird warm|0.0001|y|n|n
""")
# continent of countries (the names of the second round's table)
CONTINENT = {k: v for v, ks in {
    'Europe': 'France|Germany|Italy|Spain|Portugal|Ireland|the Netherlands|Belgium|Switzerland|Austria|Poland|the Czech Republic|Slovakia|Hungary|Romania|Bulgaria|Greece|Ukraine|Sweden|Norway|Denmark|Finland|Iceland|Croatia|Serbia|Slovenia|Albania|Estonia|Latvia|Lithuania',
    'Asia': 'China|Japan|South Korea|India|Thailand|Vietnam|Indonesia|Malaysia|Pakistan|Bangladesh|Nepal|Iran|Iraq|Saudi Arabia|Israel|Jordan|Mongolia|the Philippines|Sri Lanka|Cambodia',
    'Africa': 'Egypt|Morocco|Algeria|Tunisia|Kenya|Ethiopia|Nigeria|Ghana|South Africa|Senegal|Tanzania|Uganda|Zimbabwe|Madagascar|Sudan',
    'North America': 'Canada|Mexico|the United States|Cuba|Jamaica|Costa Rica|Panama|Guatemala',
    'South America': 'Brazil|Argentina|Chile|Peru|Colombia|Venezuela|Ecuador|Bolivia|Uruguay|Paraguay'}.items() for k in ks.split('|')}
# person | did what (past) | base form | year or '' | who they were
DEEDS = table("""
Alexander Graham Bell|invented the telephone|invent the telephone|1876|an inventor
Thomas Edison|made the first practical light bulb|make the first practical light bulb|1879|an American inventor
Johannes Gutenberg|brought printing with movable type to Europe|bring printing with movable type to Europe|about 1440|a German printer
Tim Berners-Lee|invented the World Wide Web|invent the World Wide Web|1989|a British computer scientist
James Watt|improved the steam engine|improve the steam engine|1769|a Scottish engineer
Alexander Fleming|discovered penicillin|discover penicillin|1928|a Scottish doctor
Marie Curie|discovered radium|discover radium|1898|a physicist and chemist
Isaac Newton|published the law of gravity|publish the law of gravity|1687|an English scientist
Albert Einstein|published the theory of special relativity|publish the theory of special relativity|1905|a physicist
Charles Darwin|published On the Origin of Species|publish On the Origin of Species|1859|an English naturalist
Christopher Columbus|reached America|reach America|1492|a sailor from Genoa
Neil Armstrong|walked on the Moon as the first person|walk on the Moon as the first person|1969|an American astronaut
Yuri Gagarin|flew into space as the first person|fly into space as the first person|1961|a Soviet cosmonaut
Edmund Hillary|reached the top of Mount Everest|reach the top of Mount Everest|1953|a climber from New Zealand
Ludwig van Beethoven|completed his Ninth Symphony|complete his Ninth Symphony|1824|a German composer
Wolfgang Amadeus Mozart|composed The Magic Flute|compose The Magic Flute|1791|a composer from Salzburg
Antonio Vivaldi|published The Four Seasons|publish The Four Seasons|1725|an Italian composer
Pablo Picasso|painted Guernica|paint Guernica|1937|a Spanish painter
Vincent van Gogh|painted The Starry Night|paint The Starry Night|1889|a Dutch painter
Michelangelo|painted the ceiling of the Sistine Chapel|paint the ceiling of the Sistine Chapel|1512|an Italian artist
George Orwell|published Animal Farm|publish Animal Farm|1945|an English writer
Jane Austen|published Pride and Prejudice|publish Pride and Prejudice|1813|an English novelist
Mary Shelley|published Frankenstein|publish Frankenstein|1818|an English novelist
Herman Melville|published Moby-Dick|publish Moby-Dick|1851|an American novelist
Charles Dickens|published A Christmas Carol|publish A Christmas Carol|1843|an English novelist
Karl Benz|built the first practical motor car|build the first practical motor car|1885|a German engineer
Alfred Nobel|invented dynamite|invent dynamite|1867|a Swedish chemist
Louis Braille|created the Braille alphabet|create the Braille alphabet|1824|a French teacher
Samuel Morse|showed his telegraph|show his telegraph|1844|an American inventor
Guglielmo Marconi|sent a radio signal across the Atlantic|send a radio signal across the Atlantic|1901|an Italian engineer
Roald Amundsen|reached the South Pole|reach the South Pole|1911|a Norwegian explorer
Amelia Earhart|flew alone across the Atlantic|fly alone across the Atlantic|1932|an American pilot
Galileo Galilei|saw the moons of Jupiter|see the moons of Jupiter|1610|an Italian astronomer
Edward Jenner|tested the first vaccine|test the first vaccine|1796|an English doctor
Ada Lovelace|wrote a program for the Analytical Engine|write a program for the Analytical Engine|1843|an English mathematician
Gustave Eiffel|built the Eiffel Tower with his company|build the Eiffel Tower with his company|1889|a French engineer
""")
# claim | t or f | reason or correction
CLAIMS = table("""
the sun is a star|t|It is a ball of hot gas that makes its own light.
the moon makes its own light|f|It reflects the light of the sun.
the earth goes around the sun|t|One turn takes a year.
the sun goes around the earth|f|The earth goes around the sun.
Venus is closer to the sun than the earth|t|The order is Mercury, Venus, Earth.
Mars is bigger than the earth|f|Mars is about half as wide as the earth.
Saturn has rings|t|They are made of ice and rock.
Pluto is a planet|f|It has been called a dwarf planet since 2006.
water freezes at zero degrees Celsius|t|That is its freezing point at normal pressure.
water boils at fifty degrees Celsius|f|At sea level it boils at 100 degrees Celsius.
ice is heavier than water|f|Ice is less dense than water, so it floats.
ice floats on water|t|Ice is less dense than liquid water.
oil floats on water|t|Oil is less dense than water.
iron floats on water|f|A piece of iron sinks, because it is denser than water.
wood can burn|t|It catches fire when it is hot enough and has air.
stones can burn|f|Ordinary stones do not burn.
glass is made from sand|t|Sand is melted with other materials.
paper is made from wood|t|Most paper is made of wood fibres.
plastic grows on trees|f|Most plastic is made from oil.
gold rusts|f|Gold does not react with air and water; iron rusts.
iron rusts|t|Iron reacts with water and oxygen.
diamonds are made of carbon|t|They are a crystal form of carbon.
sound travels faster than light|f|Light is about a million times faster.
light travels faster than sound|t|That is why you see lightning before you hear thunder.
sound can travel through empty space|f|Sound needs something to travel through, such as air.
plants need light|t|They use light to make their food.
mushrooms are plants|f|They are fungi, a group of their own.
trees produce oxygen|t|They give it off when they make food from light.
people have three lungs|f|People have two lungs.
people have two kidneys|t|Most people have two.
the heart pumps blood|t|It sends blood through the whole body.
the brain digests food|f|The stomach and the gut digest food.
adults have more bones than babies|f|Babies have more; some bones grow together later.
hair grows from the skin|t|Each hair grows from a small root in the skin.
people can live without water for a month|f|Without water people survive only a few days.
people need sleep|t|The body and the brain recover during sleep.
smoking is healthy|f|Smoking harms the lungs, the heart and other organs.
vegetables are healthy|t|They give vitamins, minerals and fibre.
sugar is good for your teeth|f|Bacteria turn sugar into acid, which harms teeth.
a year has twelve months|t|They go from January to December.
a week has eight days|f|A week has seven days.
an hour has sixty minutes|t|And a minute has sixty seconds.
a leap year has 365 days|f|A leap year has 366 days.
February is the shortest month|t|It has 28 or 29 days.
every month has thirty days|f|Months have 28 to 31 days.
a triangle has three sides|t|That is what its name says.
a square has five corners|f|A square has four corners.
a circle has corners|f|A circle is round and has no corners.
ten is more than nine|t|Ten is one more than nine.
half of ten is six|f|Half of ten is five.
two plus two is four|t|It is one of the first sums that children learn.
zero is an even number|t|It can be divided by two without a rest.
one is a prime number|f|A prime number has exactly two divisors, and one has only itself.
two is a prime number|t|It is the only even prime number.
Asia is the largest continent|t|It has about 30 percent of the land.
Africa is a country|f|Africa is a continent with more than fifty countries.
Australia is both a country and a continent|t|The country covers nearly the whole continent.
Antarctica is hot|f|It is the coldest continent.
the Pacific is the largest ocean|t|It covers about a third of the earth.
the Nile is in South America|f|The Nile is in Africa.
the Amazon is in Africa|f|The Amazon is in South America.
London lies on the Thames|t|The river flows through the middle of the city.
the Eiffel Tower is in London|f|It is in Paris.
the pyramids of Giza are in Egypt|t|They stand near Cairo.
Mount Everest is in Europe|f|It is in the Himalayas in Asia.
New York is the capital of the United States|f|The capital is Washington, D.C.
Sydney is the capital of Australia|f|The capital is Canberra.
Canberra is the capital of Australia|t|Sydney is larger, but Canberra is the capital.
Rio de Janeiro is the capital of Brazil|f|The capital is Brasília.
Istanbul is the capital of Turkey|f|The capital is Ankara.
Toronto is the capital of Canada|f|The capital is Ottawa.
Zurich is the capital of Switzerland|f|The government sits in Bern.
people in Brazil speak Portuguese|t|Brazil was a Portuguese colony.
people in Mexico speak Portuguese|f|Most people there speak Spanish.
people in Austria speak German|t|It is the official language.
the euro is used in Italy|t|Italy has had the euro since 2002.
the yen is the currency of China|f|The yen is Japanese; China has the yuan.
Shakespeare wrote Hamlet|t|It is one of his tragedies.
Mozart was a painter|f|He was a composer.
Leonardo da Vinci painted the Mona Lisa|t|He painted it about 1503.
the Second World War ended in 1945|t|It began in 1939.
the First World War began in 1939|f|It began in 1914.
the Berlin Wall fell in 1989|t|Germany was united a year later.
the Titanic is a plane|f|It was a ship that sank in 1912.
chess is a board game|t|Two players move pieces on 64 squares.
football is played with the hands|f|Players use their feet; only the goalkeeper may use the hands.
a piano has keys|t|A usual piano has 88 of them.
a guitar has keys like a piano|f|A guitar has strings.
a violin is played with a bow|t|The bow moves over the strings.
bread is made from flour|t|Flour, water, salt and often yeast.
cheese is made from milk|t|The milk is curdled and pressed.
butter is made from water|f|Butter is made from cream.
honey is made by ants|f|Honey is made by bees.
wine is made from grapes|t|The juice of the grapes ferments.
chocolate is made from cocoa beans|t|The beans are roasted and ground.
coffee grows under the ground|f|Coffee beans are seeds of fruits on a bush.
peanuts are nuts in botany|f|They are legumes, like beans and peas.
rice is a grain|t|It is the seed of a grass.
salt is sweet|f|Salt tastes salty; sugar is sweet.
a lime is sour|t|It contains much citric acid.
Python is a programming language|t|It is known for being easy to read.
HTML is a programming language for calculations|f|HTML describes the structure of web pages.
Linux is an operating system|t|Strictly, Linux is the kernel of one.
a kilobyte is larger than a megabyte|f|A megabyte is about a thousand kilobytes.
a byte has eight bits|t|One byte can hold 256 different values.
a computer virus can make people ill|f|It is a harmful program, not a living thing.
Wi-Fi needs no cable|t|It sends data by radio.
a metre has a hundred centimetres|t|Centi means a hundredth.
a kilometre is shorter than a metre|f|A kilometre is 1,000 metres.
a mile is longer than a kilometre|t|A mile is about 1.6 kilometres.
a kilogram has a thousand grams|t|Kilo means a thousand.
a litre of water weighs ten kilograms|f|It weighs about one kilogram.
rain comes from clouds|t|Drops grow in the cloud until they fall.
snow is hot|f|Snow is frozen water and cold.
lightning is electricity|t|It is a large spark between clouds or to the ground.
the sky is green|f|On a clear day the sky looks blue.
grass is usually blue|f|Grass is usually green.
blood is red|t|Its colour comes from iron in the red cells.
milk is white|t|Tiny drops of fat and protein scatter the light.
the sun rises in the west|f|The sun rises in the east.
the sun sets in the west|t|It rises in the east.
a compass needle points north|t|It follows the magnetic field of the earth.
winter is the warmest season|f|Winter is the coldest season; summer is the warmest.
leaves fall in autumn|t|Many trees lose their leaves then.
a caterpillar turns into a butterfly|t|It changes inside a cocoon or chrysalis.
a tadpole turns into a fish|f|A tadpole turns into a frog or toad.
camels store water in their humps|f|The humps store fat.
goldfish remember things for only three seconds|f|They can remember things for months.
bats are blind|f|Bats can see; many also find their way by echoes.
bulls get angry because of the colour red|f|They react to the movement of the cloth.
lightning never strikes the same place twice|f|Tall buildings are struck many times.
the Great Wall of China can be seen from the Moon|f|It is far too narrow to be seen from there.
we use only ten percent of our brain|f|We use nearly all of it.
hair and nails keep growing after death|f|The skin dries and draws back, so they only look longer.
cracking knuckles causes arthritis|f|Studies have found no such link.
dinosaurs and people lived at the same time|f|Dinosaurs died out about 66 million years ago, long before people.
""")
