/** Up to where this tab has heard the changes: `EPOCH.SEQ`, an epoch being one run of the daemon. */

export class Position {
  /** The last change that was heard; null before the first hello. A new connection goes on after it. */
  heard: string | null = null;
  private greeted: string | null = null;

  /**
   * Take the daemon's position from its hello; return whether everything must be asked for again.
   *
   * In the same epoch the changes between are still to come: a connection that is cut before them asks for them again.
   */
  greet(position: string): boolean {
    this.greeted = position;
    if (this.heard !== null && epochOf(this.heard) === epochOf(position)) return false;
    this.heard = position;
    return true;
  }

  /** Forget everything: another session begins. */
  forget(): void {
    this.heard = this.greeted = null;
  }

  /** Note that a frame told all changes up to a number. */
  reach(seq: number): void {
    const known = this.greeted ?? this.heard;
    if (known !== null) this.heard = `${epochOf(known)}.${seq}`;
  }

  /** Give up the changes since the last one that was heard: the daemon does not know them any more. */
  reset(): void {
    this.heard = this.greeted;
  }
}

function epochOf(position: string): string {
  return position.slice(0, position.lastIndexOf("."));
}
