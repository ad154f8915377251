"""python -m anabranch_dynamo --model DIR --url http://127.0.0.1:11436 [--kv-events tcp://127.0.0.1:5557] ..."""

import sys

from dynamo.common.backend.run import run

from .engine import AnabranchEngine


def main():
    made = []

    async def factory(argv):
        engine, config = await AnabranchEngine.from_args(argv)
        made.append(engine)
        return engine, config

    run(AnabranchEngine, engine_factory=factory)
    sys.exit(1 if made and made[0].lost else 0)  # a supervisor starts it again


if __name__ == "__main__":
    main()
