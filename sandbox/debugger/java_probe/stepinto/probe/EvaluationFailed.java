package stepinto.probe;

/** An expression or code that could not be evaluated; the program is where it was. */
final class EvaluationFailed extends Exception {
    private static final long serialVersionUID = 1;

    /** Whether it was interrupted because it ran past the action's deadline. */
    final boolean timedOut;

    EvaluationFailed(String message) {
        this(message, false);
    }

    EvaluationFailed(String message, boolean timedOut) {
        super(message);
        this.timedOut = timedOut;
    }
}
