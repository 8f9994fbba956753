// @ts-check

// A function that calls `run` after some milliseconds. Calls in the meantime change nothing: many events cause one call.
// A call while `run` works makes it run once more afterwards, so it never works twice at the same time.
/** @type {(run: () => unknown, milliseconds: number) => () => void} */
export function soon(run, milliseconds) {
  let isWaiting = false;
  let isRunning = false;
  let isAskedAgain = false;

  const ask = () => {
    if (isRunning) isAskedAgain = true;
    else if (!isWaiting) {
      isWaiting = true;
      setTimeout(runOnce, milliseconds);
    }
  };
  const runOnce = async () => {
    [isWaiting, isRunning, isAskedAgain] = [false, true, false];
    try {
      await run();
    } finally {
      isRunning = false;
      if (isAskedAgain) ask();
    }
  };
  return ask;
}
