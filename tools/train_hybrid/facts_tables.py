OPP = 'hot cold|big small|tall short|fast slow|happy sad|up down|in out|on off|open closed|light dark|day night|good bad|new old|young old|rich poor|hard soft|wet dry|full empty|clean dirty|strong weak|early late|left right|high low|near far|first last|begin end|start stop|buy sell|love hate|win lose|give take|push pull|long short|wide narrow|thick thin|heavy light|loud quiet|easy difficult|cheap expensive|safe dangerous|true false|alive dead|awake asleep|above below|before after|inside outside|black white|war peace|friend enemy|question answer|arrive depart|accept refuse|always never|ancient modern|beautiful ugly|brave cowardly|bright dim|deep shallow|early late|forget remember|generous stingy|guilty innocent|increase decrease|laugh cry|lazy hardworking|maximum minimum|noisy quiet|optimist pessimist|polite rude|present absent|public private|quick slow|rough smooth|sharp blunt|sweet sour|tight loose|victory defeat|visible invisible|warm cool|wise foolish|build destroy|success failure|north south|east west|summer winter|father mother|brother sister|king queen|boy girl|man woman|uncle aunt|husband wife|major minor|most least|more less|plus minus|positive negative|possible impossible|same different|simple complicated|single married|straight crooked|top bottom|front back|entrance exit|import export|include exclude|lend borrow|save spend|teach learn|together apart|tiny huge|calm nervous|careful careless|common rare|fresh stale|healthy sick|honest dishonest|kind cruel|legal illegal|patient impatient|raw cooked|selfish generous|sink float|smile frown|sunny cloudy|vacant occupied|wild tame|yes no'
SYN = 'happy glad joyful cheerful|sad unhappy sorrowful|big large huge|small little tiny|fast quick rapid|slow sluggish unhurried|smart clever intelligent|begin start commence|end finish conclude|beautiful pretty lovely|angry mad furious|scared afraid frightened|hard difficult tough|easy simple effortless|rich wealthy prosperous|tired weary exhausted|strange odd unusual|quiet silent calm|brave courageous bold|important significant crucial|help assist aid|buy purchase acquire|show display present|answer reply response|house home dwelling|job work occupation|funny amusing humorous|correct right accurate|wrong incorrect mistaken|old aged elderly|new fresh modern|cold chilly freezing|hot warm boiling|loud noisy deafening|clean spotless tidy|dirty filthy grimy|choose select pick|fix repair mend|error mistake fault|kind nice gentle|ask inquire question|speak talk say|look see watch|big enormous gigantic|delicious tasty yummy|famous well-known celebrated|friend companion pal|gift present|child kid youngster|road street way|trip journey voyage|enough sufficient adequate|rich affluent|polite courteous respectful|lucky fortunate|empty vacant hollow|whole entire complete|hurry rush hasten|jump leap hop|shout yell scream|strong powerful sturdy|weak feeble frail|wonderful marvelous fantastic|bad awful terrible|good great excellent'
# ---- en|fr|es|de|it|pt
TRANS = """hello|bonjour|hola|hallo|ciao|olá
good morning|bonjour|buenos días|guten Morgen|buongiorno|bom dia
good evening|bonsoir|buenas tardes|guten Abend|buonasera|boa noite
good night|bonne nuit|buenas noches|gute Nacht|buonanotte|boa noite
goodbye|au revoir|adiós|auf Wiedersehen|arrivederci|adeus
thank you|merci|gracias|danke|grazie|obrigado
please|s'il vous plaît|por favor|bitte|per favore|por favor
yes|oui|sí|ja|sì|sim
no|non|no|nein|no|não
sorry|désolé|lo siento|Entschuldigung|scusa|desculpe
water|eau|agua|Wasser|acqua|água
bread|pain|pan|Brot|pane|pão
milk|lait|leche|Milch|latte|leite
cheese|fromage|queso|Käse|formaggio|queijo
wine|vin|vino|Wein|vino|vinho
coffee|café|café|Kaffee|caffè|café
tea|thé|té|Tee|tè|chá
apple|pomme|manzana|Apfel|mela|maçã
egg|œuf|huevo|Ei|uovo|ovo
fish|poisson|pescado|Fisch|pesce|peixe
meat|viande|carne|Fleisch|carne|carne
salt|sel|sal|Salz|sale|sal
sugar|sucre|azúcar|Zucker|zucchero|açúcar
dog|chien|perro|Hund|cane|cão
cat|chat|gato|Katze|gatto|gato
horse|cheval|caballo|Pferd|cavallo|cavalo
bird|oiseau|pájaro|Vogel|uccello|pássaro
cow|vache|vaca|Kuh|mucca|vaca
house|maison|casa|Haus|casa|casa
book|livre|libro|Buch|libro|livro
table|table|mesa|Tisch|tavolo|mesa
chair|chaise|silla|Stuhl|sedia|cadeira
door|porte|puerta|Tür|porta|porta
window|fenêtre|ventana|Fenster|finestra|janela
bed|lit|cama|Bett|letto|cama
car|voiture|coche|Auto|macchina|carro
train|train|tren|Zug|treno|trem
street|rue|calle|Straße|strada|rua
city|ville|ciudad|Stadt|città|cidade
school|école|escuela|Schule|scuola|escola
friend|ami|amigo|Freund|amico|amigo
mother|mère|madre|Mutter|madre|mãe
father|père|padre|Vater|padre|pai
brother|frère|hermano|Bruder|fratello|irmão
sister|sœur|hermana|Schwester|sorella|irmã
child|enfant|niño|Kind|bambino|criança
man|homme|hombre|Mann|uomo|homem
woman|femme|mujer|Frau|donna|mulher
sun|soleil|sol|Sonne|sole|sol
moon|lune|luna|Mond|luna|lua
star|étoile|estrella|Stern|stella|estrela
sea|mer|mar|Meer|mare|mar
mountain|montagne|montaña|Berg|montagna|montanha
river|rivière|río|Fluss|fiume|rio
tree|arbre|árbol|Baum|albero|árvore
flower|fleur|flor|Blume|fiore|flor
rain|pluie|lluvia|Regen|pioggia|chuva
snow|neige|nieve|Schnee|neve|neve
fire|feu|fuego|Feuer|fuoco|fogo
day|jour|día|Tag|giorno|dia
night|nuit|noche|Nacht|notte|noite
today|aujourd'hui|hoy|heute|oggi|hoje
tomorrow|demain|mañana|morgen|domani|amanhã
yesterday|hier|ayer|gestern|ieri|ontem
year|année|año|Jahr|anno|ano
time|temps|tiempo|Zeit|tempo|tempo
love|amour|amor|Liebe|amore|amor
heart|cœur|corazón|Herz|cuore|coração
hand|main|mano|Hand|mano|mão
head|tête|cabeza|Kopf|testa|cabeça
eye|œil|ojo|Auge|occhio|olho
money|argent|dinero|Geld|denaro|dinheiro
work|travail|trabajo|Arbeit|lavoro|trabalho
red|rouge|rojo|rot|rosso|vermelho
blue|bleu|azul|blau|blu|azul
green|vert|verde|grün|verde|verde
yellow|jaune|amarillo|gelb|giallo|amarelo
black|noir|negro|schwarz|nero|preto
white|blanc|blanco|weiß|bianco|branco
one|un|uno|eins|uno|um
two|deux|dos|zwei|due|dois
three|trois|tres|drei|tre|três
four|quatre|cuatro|vier|quattro|quatro
five|cinq|cinco|fünf|cinque|cinco
ten|dix|diez|zehn|dieci|dez
hundred|cent|cien|hundert|cento|cem
big|grand|grande|groß|grande|grande
small|petit|pequeño|klein|piccolo|pequeno
good|bon|bueno|gut|buono|bom
bad|mauvais|malo|schlecht|cattivo|mau
new|nouveau|nuevo|neu|nuovo|novo
beautiful|beau|hermoso|schön|bello|bonito
happy|heureux|feliz|glücklich|felice|feliz
Monday|lundi|lunes|Montag|lunedì|segunda-feira
Sunday|dimanche|domingo|Sonntag|domenica|domingo
summer|été|verano|Sommer|estate|verão
winter|hiver|invierno|Winter|inverno|inverno
How are you?|Comment allez-vous ?|¿Cómo estás?|Wie geht es dir?|Come stai?|Como está?
What is your name?|Comment vous appelez-vous ?|¿Cómo te llamas?|Wie heißt du?|Come ti chiami?|Como se chama?
My name is Anna.|Je m'appelle Anna.|Me llamo Anna.|Ich heiße Anna.|Mi chiamo Anna.|Meu nome é Anna.
I love you.|Je t'aime.|Te quiero.|Ich liebe dich.|Ti amo.|Eu te amo.
Where is the station?|Où est la gare ?|¿Dónde está la estación?|Wo ist der Bahnhof?|Dov'è la stazione?|Onde fica a estação?
How much does it cost?|Combien ça coûte ?|¿Cuánto cuesta?|Wie viel kostet das?|Quanto costa?|Quanto custa?
I am hungry.|J'ai faim.|Tengo hambre.|Ich habe Hunger.|Ho fame.|Estou com fome.
I am tired.|Je suis fatigué.|Estoy cansado.|Ich bin müde.|Sono stanco.|Estou cansado.
See you tomorrow.|À demain.|Hasta mañana.|Bis morgen.|A domani.|Até amanhã.
I don't understand.|Je ne comprends pas.|No entiendo.|Ich verstehe nicht.|Non capisco.|Não entendo.
I would like a coffee, please.|Je voudrais un café, s'il vous plaît.|Quisiera un café, por favor.|Ich möchte einen Kaffee, bitte.|Vorrei un caffè, per favore.|Eu gostaria de um café, por favor.
The cat is black.|Le chat est noir.|El gato es negro.|Die Katze ist schwarz.|Il gatto è nero.|O gato é preto.
The house is big.|La maison est grande.|La casa es grande.|Das Haus ist groß.|La casa è grande.|A casa é grande.
I like music.|J'aime la musique.|Me gusta la música.|Ich mag Musik.|Mi piace la musica.|Eu gosto de música.
Happy birthday!|Joyeux anniversaire !|¡Feliz cumpleaños!|Alles Gute zum Geburtstag!|Buon compleanno!|Feliz aniversário!
Welcome!|Bienvenue !|¡Bienvenido!|Willkommen!|Benvenuto!|Bem-vindo!
Help!|Au secours !|¡Socorro!|Hilfe!|Aiuto!|Socorro!
Good luck!|Bonne chance !|¡Buena suerte!|Viel Glück!|Buona fortuna!|Boa sorte!
The weather is nice today.|Il fait beau aujourd'hui.|Hoy hace buen tiempo.|Das Wetter ist heute schön.|Oggi il tempo è bello.|O tempo está bom hoje.
I live in London.|J'habite à Londres.|Vivo en Londres.|Ich wohne in London.|Vivo a Londra.|Eu moro em Londres."""
LANGS = ['French', 'Spanish', 'German', 'Italian', 'Portuguese']
# ---- elements: name symbol number
ELEM = 'hydrogen H 1|helium He 2|lithium Li 3|beryllium Be 4|boron B 5|carbon C 6|nitrogen N 7|oxygen O 8|fluorine F 9|neon Ne 10|sodium Na 11|magnesium Mg 12|aluminium Al 13|silicon Si 14|phosphorus P 15|sulfur S 16|chlorine Cl 17|argon Ar 18|potassium K 19|calcium Ca 20|titanium Ti 22|chromium Cr 24|manganese Mn 25|iron Fe 26|cobalt Co 27|nickel Ni 28|copper Cu 29|zinc Zn 30|arsenic As 33|bromine Br 35|silver Ag 47|tin Sn 50|iodine I 53|tungsten W 74|platinum Pt 78|gold Au 79|mercury Hg 80|lead Pb 82|radium Ra 88|uranium U 92'
# ---- capital overrides / list (country|capital|currency|language)
COUNTRY = """France|Paris|euro|French
Germany|Berlin|euro|German
Italy|Rome|euro|Italian
Spain|Madrid|euro|Spanish
Portugal|Lisbon|euro|Portuguese
the United Kingdom|London|pound sterling|English
England|London|pound sterling|English
Ireland|Dublin|euro|English and Irish
Scotland|Edinburgh|pound sterling|English
the Netherlands|Amsterdam|euro|Dutch
Belgium|Brussels|euro|Dutch, French and German
Switzerland|Bern|Swiss franc|German, French, Italian and Romansh
Austria|Vienna|euro|German
Poland|Warsaw|zloty|Polish
the Czech Republic|Prague|koruna|Czech
Slovakia|Bratislava|euro|Slovak
Hungary|Budapest|forint|Hungarian
Romania|Bucharest|leu|Romanian
Bulgaria|Sofia|euro|Bulgarian
Greece|Athens|euro|Greek
Turkey|Ankara|lira|Turkish
Russia|Moscow|ruble|Russian
Ukraine|Kyiv|hryvnia|Ukrainian
Sweden|Stockholm|krona|Swedish
Norway|Oslo|krone|Norwegian
Denmark|Copenhagen|krone|Danish
Finland|Helsinki|euro|Finnish and Swedish
Iceland|Reykjavik|krona|Icelandic
Croatia|Zagreb|euro|Croatian
Serbia|Belgrade|dinar|Serbian
Slovenia|Ljubljana|euro|Slovene
Albania|Tirana|lek|Albanian
Estonia|Tallinn|euro|Estonian
Latvia|Riga|euro|Latvian
Lithuania|Vilnius|euro|Lithuanian
Luxembourg|Luxembourg|euro|Luxembourgish, French and German
Malta|Valletta|euro|Maltese and English
Cyprus|Nicosia|euro|Greek and Turkish
the United States|Washington, D.C.|dollar|English
Canada|Ottawa|dollar|English and French
Mexico|Mexico City|peso|Spanish
Cuba|Havana|peso|Spanish
Jamaica|Kingston|dollar|English
Costa Rica|San José|colón|Spanish
Panama|Panama City|balboa|Spanish
Guatemala|Guatemala City|quetzal|Spanish
Brazil|Brasília|real|Portuguese
Argentina|Buenos Aires|peso|Spanish
Chile|Santiago|peso|Spanish
Peru|Lima|sol|Spanish
Colombia|Bogotá|peso|Spanish
Venezuela|Caracas|bolívar|Spanish
Ecuador|Quito|US dollar|Spanish
Bolivia|Sucre (the government sits in La Paz)|boliviano|Spanish
Uruguay|Montevideo|peso|Spanish
Paraguay|Asunción|guaraní|Spanish and Guaraní
China|Beijing|yuan (renminbi)|Mandarin Chinese
Japan|Tokyo|yen|Japanese
South Korea|Seoul|won|Korean
North Korea|Pyongyang|won|Korean
India|New Delhi|rupee|Hindi and English
Pakistan|Islamabad|rupee|Urdu and English
Bangladesh|Dhaka|taka|Bengali
Nepal|Kathmandu|rupee|Nepali
Sri Lanka|Sri Jayawardenepura Kotte (the largest city is Colombo)|rupee|Sinhala and Tamil
Thailand|Bangkok|baht|Thai
Vietnam|Hanoi|dong|Vietnamese
Indonesia|Jakarta|rupiah|Indonesian
Malaysia|Kuala Lumpur|ringgit|Malay
the Philippines|Manila|peso|Filipino and English
Singapore|Singapore|dollar|English, Malay, Mandarin and Tamil
Cambodia|Phnom Penh|riel|Khmer
Mongolia|Ulaanbaatar|tögrög|Mongolian
Iran|Tehran|rial|Persian
Iraq|Baghdad|dinar|Arabic and Kurdish
Israel|Jerusalem|shekel|Hebrew
Saudi Arabia|Riyadh|riyal|Arabic
the United Arab Emirates|Abu Dhabi|dirham|Arabic
Qatar|Doha|riyal|Arabic
Jordan|Amman|dinar|Arabic
Lebanon|Beirut|pound|Arabic
Syria|Damascus|pound|Arabic
Afghanistan|Kabul|afghani|Pashto and Dari
Kazakhstan|Astana|tenge|Kazakh and Russian
Egypt|Cairo|pound|Arabic
Morocco|Rabat|dirham|Arabic and Berber
Algeria|Algiers|dinar|Arabic and Berber
Tunisia|Tunis|dinar|Arabic
Nigeria|Abuja|naira|English
Kenya|Nairobi|shilling|Swahili and English
Ethiopia|Addis Ababa|birr|Amharic
Ghana|Accra|cedi|English
South Africa|Pretoria (with Cape Town and Bloemfontein)|rand|Zulu, Xhosa, Afrikaans, English and others
Tanzania|Dodoma|shilling|Swahili and English
Uganda|Kampala|shilling|English and Swahili
Senegal|Dakar|CFA franc|French
Australia|Canberra|dollar|English
New Zealand|Wellington|dollar|English and Māori"""
