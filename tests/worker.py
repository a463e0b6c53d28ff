"""One worker of a run of several: trains, and tells what it saw.

Arguments: a file for what it saw, the number of devices to make of the
processor, and the flags of the program. With DIE_AFTER in the environment it
ends after so many epochs as if it had been killed.
"""

import json
import logging
import os
import sys

import keras
import tensorflow as tf

from adaptive_gcn import (
    checkpoint,
    fitting,
    main,
    pipeline,
    stopping,
    training,
)


def note_batches(element):
    def noting(self, batch, streams, reader):
        epoch = streams.step // self.n_steps
        seen.setdefault(epoch, []).append(batch.tolist())
        return element(self, batch, streams, reader)

    return noting


def note_weights(run):
    def noting(self):
        run(self)
        weights.extend(each.tolist() for each in self.network.get_weights())
        rows.extend(self.history.rows)

    return noting


def die_after(on_epoch_end):
    def dying(self, epoch, logs=None):
        on_epoch_end(self, epoch, logs)
        if epoch + 1 == int(os.environ.get("DIE_AFTER", "0")):
            os._exit(9)

    return dying


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    target, n_devices, *words = sys.argv[1:]
    seen, weights, rows = {}, [], []
    if int(n_devices) > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        part = tf.config.LogicalDeviceConfiguration()
        parts = [part] * int(n_devices)
        tf.config.set_logical_device_configuration(cpu, parts)
    pipeline.Batches._element = note_batches(pipeline.Batches._element)
    saving = checkpoint.Checkpoints
    saving.on_epoch_end = die_after(saving.on_epoch_end)
    fitting.Fit.run = note_weights(fitting.Fit.run)
    keras.utils.disable_interactive_logging()
    try:
        training.train(
            main.parse_flags(["worker", *words]), stopping.StopSignals()
        )
    except training.USER_ERRORS as error:
        sys.exit(f"{type(error).__name__}: {error}")
    with open(target, "w", encoding="utf-8") as file:
        json.dump({"batches": seen, "weights": weights, "rows": rows}, file)
