"""The 6,000 most frequent words of WordNet 3.0 with definition, example and synonyms.

usage: word_list.py WORDNET_DIR WORDS.json     WORDNET_DIR is usr/share/wordnet of the Debian package `wordnet-base`.
Writes word -> {p: part of speech, d: definition, ex: [example], syn: [synonyms]}, most frequent first.
"""
import collections
import json
import re
import sys

PART = {'1': 'noun', '2': 'verb', '3': 'adj', '4': 'adv', '5': 'adj'}
STOP = set('be have do not will can could should would may might must get go say make take come one two'.split())


def read_counts(folder):
    count = collections.Counter()
    for line in open(folder + '/cntlist.rev'):
        key, _, n = line.split()
        word, rest = key.split('%')
        if '_' not in word and word.isalpha() and len(word) >= 3:
            count[word, rest[0]] += int(n)
    return count


def read_index(folder):
    """-> (word, part of speech) -> offsets of its synsets, the most frequent first"""
    index = {}
    for p in ('noun', 'verb', 'adj'):
        for line in open(f'{folder}/index.{p}', encoding='latin1'):
            f = line.split()
            if not line.startswith(' ') and f[0].isalpha() and len(f[0]) >= 3:
                index[f[0], p] = [int(x) for x in f[-int(f[2]):]]
    return index


def main():
    folder, target = sys.argv[1:3]
    data = {p: open(f'{folder}/data.{p}', 'rb').read() for p in ('noun', 'verb', 'adj')}
    index = read_index(folder)
    total, best = collections.Counter(), {}
    for (w, x), n in read_counts(folder).items():
        if (w, PART[x]) in index:
            total[w] += n
            if n > best.get(w, (0, ''))[0]:
                best[w] = (n, PART[x])
    out = {}
    for w, _ in total.most_common(6000):
        if w in STOP:
            continue
        p = best[w][1]
        offset = index[w, p][0]
        line = data[p][offset:data[p].index(b'\n', offset)].decode('latin1')
        a, gloss = line.split(' | ', 1)
        f = a.split()
        synonyms = [f[4 + 2 * i] for i in range(int(f[3], 16))]
        gloss = gloss.strip()
        d = re.split(r'; "|;', gloss)[0].strip()
        examples = [e for e in re.findall(r'"([^"]{8,80})"', gloss) if w in e.lower()]
        out[w] = dict(p=p, d=re.sub(r'^\(.*?\)\s*', '', d).strip(), ex=examples[:1],
                      syn=[x.replace('_', ' ') for x in synonyms if x.lower() != w and x.isalpha()][:3])
    json.dump(out, open(target, 'w'))
    print('words', len(out))


if __name__ == '__main__':
    main()
