"""Rows of training data, their batches, checkpoints and the learning rate."""
from runtime import *

# A training row is `tok` uint16[L] + `flag` uint8[L]:
#   flag bits: 1 = token was inserted (the teacher does not see it), 2 = CE target (learn this token from data),
#              4 = no loss on this token at all
class Rows:
    """Pool of packed fixed-length streams; sample() gives [B,T] windows."""

    def __init__(self, parts, seed=0):
        """parts: list of (tok, flag, weight): flat streams"""
        self.parts = [(t, f, w) for t, f, w in parts if len(t) > 5000]
        w = np.array([w for _, _, w in self.parts], dtype=np.float64)
        self.w = w / w.sum()
        self.r = np.random.default_rng(seed)
        self.cur = [None] * len(self.parts)

    def _next(self, i, T):
        t, f, _ = self.parts[i]
        if self.cur[i] is None or self.cur[i][0] != T or self.cur[i][2] >= len(self.cur[i][1]):
            off = int(self.r.integers(0, T))
            n = (len(t) - off - 1) // T
            self.cur[i] = [T, self.r.permutation(max(n, 1)) * T + (off if n >= 1 else 0), 0]
        c = self.cur[i]
        s = c[1][c[2]]
        c[2] += 1
        return t[s:s + T + 1], f[s:s + T + 1]

    def batch(self, B, T):
        tok = np.zeros((B, T + 1), np.int64)
        fl = np.full((B, T + 1), 4, np.uint8)
        for b in range(B):
            i = self.r.choice(len(self.parts), p=self.w)
            a, f = self._next(i, T)
            tok[b, :len(a)] = a
            fl[b, :len(f)] = f
        return tok, fl


def prep(tok, fl):
    """numpy [B,T+1] -> student ids, targets, teacher ids, map (student pos -> teacher pos), wkd, wce"""
    B, T1 = tok.shape
    T = T1 - 1
    ins = (fl & 1).astype(bool)
    x, y = tok[:, :T], tok[:, 1:]
    insx, insy = ins[:, :T], ins[:, 1:]
    tt = np.zeros((B, T), np.int64)
    mp = np.cumsum(~insx, 1) - 1
    if insx.any():
        for b in range(B):
            k = x[b][~insx[b]]
            tt[b, :len(k)] = k
    else:
        tt[:] = x
    mp = np.clip(mp, 0, T - 1)
    ce = ((fl[:, 1:] & 2) > 0)
    no = ((fl[:, 1:] & 4) > 0)
    kd = ~insy & ~ce & ~no
    ce = ce & ~no
    return x, y, tt, mp, kd.astype(np.float32), ce.astype(np.float32)


def to_dev(*a):
    out = []
    for x in a:
        t = torch.from_numpy(np.ascontiguousarray(x))
        out.append(t.pin_memory().to(DEV, non_blocking=True) if CUDA else t)
    return out


class Prefetch:
    """background thread building batches"""

    def __init__(self, fn, depth=4):
        import queue, threading
        self.q = queue.Queue(depth)
        self.stop = False

        def work():
            while not self.stop:
                item = fn()
                while not self.stop:
                    try:
                        self.q.put(item, timeout=1)
                        break
                    except queue.Full:
                        pass
        self.t = threading.Thread(target=work, daemon=True)
        self.t.start()

    def get(self):
        return self.q.get()


def save_pt(obj, path):
    torch.save(obj, path + '.tmp')
    os.replace(path + '.tmp', path)


def lr_at(frac, peak, warm=0.03, final=0.05):
    if frac < warm:
        return peak * max(frac, 1e-3) / warm
    f = min(1.0, (frac - warm) / (1 - warm))
    return peak * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * f)))
