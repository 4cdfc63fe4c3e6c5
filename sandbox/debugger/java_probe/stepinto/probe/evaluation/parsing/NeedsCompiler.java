package stepinto.probe.evaluation.parsing;

/** Java that the interpreter does not know: lambdas, anonymous classes, switch, try ... */
public final class NeedsCompiler extends Exception {
    private static final long serialVersionUID = 1;

    /** The construct, as a reader calls it. */
    NeedsCompiler(String construct) {
        super(construct);
    }
}
