package stepinto.probe.program;

/** An expression or code that could not be evaluated; the program is where it was. */
public class EvaluationFailed extends Exception {
    private static final long serialVersionUID = 1;

    /** Whether it was interrupted because it ran past the action's deadline. */
    public final boolean timedOut;

    public EvaluationFailed(String message) {
        this(message, false);
    }

    public EvaluationFailed(String message, boolean timedOut) {
        super(message);
        this.timedOut = timedOut;
    }
}
