"""Words from WordNet 3.0 (Debian `wordnet-base`): by field of meaning, with definitions and example sentences."""

import collections
import re

FIELDS = {
    '04': 'act',
    '05': 'animal',
    '06': 'thing',
    '08': 'body',
    '09': 'idea',
    '10': 'text',
    '11': 'event',
    '12': 'feeling',
    '13': 'food',
    '14': 'group',
    '15': 'place',
    '17': 'landscape',
    '18': 'person',
    '19': 'phenomenon',
    '20': 'plant',
    '26': 'state',
    '27': 'substance',
    '07': 'quality',
    '28': 'time',
}
# fields in which words without a count in the corpus are welcome too
RARE_OK = ('animal', 'food', 'plant')
UNFIT = re.compile(
    r'sex|penis|vagina|prostitut|whore|bastard|bitch|slut|nigg|fag|slave|rape|nazi|drug|heroin|cocaine|murder|suicide|corpse|'
    r'genital|anus|breast|nipple|nude|naked|porn|arse|crap|shit|fuck|negro|jew|gypsy|cripple|kill|bolshevik|communist|fascis|terror|cult$|weapon|bomb|rifle|gun$|pistol|missile|virgin|concubine|harem|lesbian|homosex|heretic|infidel|savage|wretch|retard|feces|urine|vomit|excrement|executioner',
    re.I,
)


class WordNet:
    def __init__(self, folder):
        self.folder, self.data, self.index = folder, {}, {}
        for p in ('noun', 'verb', 'adj', 'adv'):
            self.data[p] = open(f'{folder}/data.{p}', 'rb').read()
            for line in open(f'{folder}/index.{p}', encoding='latin1'):
                if not line.startswith(' '):
                    f = line.split()
                    self.index[f[0], p] = [int(x) for x in f[-int(f[2]) :]]
        self.count = collections.Counter()
        for line in open(f'{folder}/cntlist.rev'):
            key, sense, n = line.split()
            word, rest = key.split('%')
            if sense == '1':
                self.count[word, {'1': 'noun', '2': 'verb', '3': 'adj', '4': 'adv', '5': 'adj'}[rest[0]]] += int(n)

    def synset(self, p, offset):
        """-> field number, words, gloss"""
        line = self.data[p][offset : self.data[p].index(b'\n', offset)].decode('latin1')
        a, gloss = line.split(' | ', 1)
        f = a.split()
        return f[1], [f[4 + 2 * i].replace('_', ' ') for i in range(int(f[3], 16))], gloss.strip()

    def fields(self):
        """-> field -> nouns whose first sense lies in it, most frequent first"""
        out = collections.defaultdict(list)
        for (word, p), offsets in self.index.items():
            if p != 'noun' or len(word) < 3 or not re.fullmatch(r'[a-z]+(_[a-z]+)?', word) or UNFIT.search(word):
                continue
            number, words, gloss = self.synset(p, offsets[0])
            field = FIELDS.get(number)
            n = self.count[word, p]
            if not field or (not n and field not in RARE_OK):
                continue
            if not n and (
                len(word) > 12
                or words[0].lower() != word.replace('_', ' ')
                or re.search(r'genus|family|extinct|order of|fossil', gloss)
            ):
                continue
            out[field].append((n, word.replace('_', ' ')))
        return {f: [w for _, w in sorted(ws, key=lambda x: (-x[0], x[1]))] for f, ws in out.items()}

    def frequent(self, p, least=3):
        ws = [
            (n, w)
            for (w, q), n in self.count.items()
            if q == p and n >= least and re.fullmatch('[a-z]{3,}', w) and (w, p) in self.index and not UNFIT.search(w)
        ]
        return [w for _, w in sorted(ws, key=lambda x: (-x[0], x[1]))]

    def gloss(self, word, p):
        """-> definition, examples of the first sense"""
        g = self.synset(p, self.index[word.replace(' ', '_'), p][0])[2]
        return re.sub(r'^\(.*?\)\s*', '', re.split(r'; "|;', g)[0].strip()).strip(), re.findall(r'"([^"]{8,90})"', g)

    def examples(self):
        """-> example sentences of all senses that look like whole sentences"""
        out = set()
        for p in ('noun', 'verb', 'adj', 'adv'):
            for line in self.data[p].decode('latin1').split('\n'):
                if ' | ' not in line:
                    continue
                for e in re.findall(r'"([^"]{18,90})"', line.split(' | ', 1)[1]):
                    w = e.split()
                    if (
                        len(w) >= 4
                        and re.match(
                            r"(the|he|she|they|we|i|it|his|her|their|my|our|this|that|these|those|a|an|you|there|don't|please|all|some|many)\b",
                            w[0],
                            re.I,
                        )
                        and not UNFIT.search(e)
                        and ';' not in e
                        and re.search(
                            r'\b(is|are|was|were|has|have|had|will|would|can|could|does|did|do|\w+ed|\w+s)\b', ' '.join(w[1:])
                        )
                    ):
                        e = e[0].upper() + e[1:]
                        out.add(e if e[-1] in '.!?' else e + '.')
        return sorted(out)
