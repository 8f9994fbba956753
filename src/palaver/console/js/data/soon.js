// @ts-check

// A function that calls `run` after some milliseconds. Calls in the meantime change nothing: many events cause one call.
/** @type {(run: () => unknown, milliseconds: number) => () => void} */
export function soon(run, milliseconds) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(() => {
      isWaiting = false;
      run();
    }, milliseconds);
  };
}
