package stepinto.probe;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Debugs a small program, so that the classes for that can be archived.
 *
 * <p>A virtual machine that finds them in an archive (class data sharing) starts twice as fast.
 */
public final class Rehearsal {
    private static final String[] REQUESTS = {
        "set_breakpoint {\"function\":\"Example.twice\",\"condition\":\"number > 0\"}",
        "step_over {}",
        "continue {}",
        "locals {}",
        "stack {}",
        "threads {}",
        "evaluate {\"expression\":\"number + arguments.length\",\"frame\":1}",
        "evaluate {\"expression\":\"twice(number) == 2 && name.isEmpty()\",\"frame\":1}",
        "fields {\"expression\":\"numbers\",\"frame\":1}",
        "step_out {}",
        "step_into {}",
        "remove_breakpoint {\"number\":1}",
        "remove_breakpoint {\"number\":2}",
        "continue {}",
    };

    private Rehearsal() {}

    /**
     * Exit code 0 where the program came to its failure.
     *
     * @param arguments the program {@code java}, the folder of the probe's own classes, and that of
     *     their sources
     */
    public static void main(String[] arguments) throws InterruptedException {
        Session session = new Session(new Wire(() -> {}), new Machines());
        Map<String, Object> answer = ask(session, "launch " + launch(arguments));
        for (String request : REQUESTS) {
            answer = ask(session, request);
        }
        session.endProgram();
        System.exit("post_mortem".equals(answer.get("state")) ? 0 : 1);
    }

    private static Map<String, Object> ask(Session session, String text)
            throws InterruptedException {
        int space = text.indexOf(' ');
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("id", 1);
        message.put("action", text.substring(0, space));
        message.put("arguments", JsonReader.object(text.substring(space)));
        message.put("timeout", 30);
        message.put("grace", 5);
        Map<String, Object> answer = session.answer(new Request(message));
        JsonWriter.write(answer, new StringBuilder());
        return answer;
    }

    private static String launch(String[] arguments) {
        String name = Example.class.getName();
        String command = list(arguments[0], "-cp", arguments[1], name);
        return "{\"target\":{\"kind\":\"java\",\"command\":" + command
                + ",\"cwd\":\"/tmp\",\"workspace\":" + text(arguments[2])
                + ",\"source_roots\":" + list(arguments[2])
                + ",\"class_roots\":" + list(arguments[1])
                + ",\"entry\":{\"class\":" + text(name) + ",\"methods\":[\"main\"]}}"
                + ",\"stop_at_entry\":true,\"stdin\":\"\",\"limits\":{},\"breakpoints\":["
                + "{\"file\":\"stepinto/probe/Example.java\",\"line\":20}]}";
    }

    private static String text(String value) {
        StringBuilder out = new StringBuilder();
        JsonWriter.write(value, out);
        return out.toString();
    }

    private static String list(String... values) {
        StringBuilder out = new StringBuilder();
        JsonWriter.write(Arrays.asList(values), out);
        return out.toString();
    }
}
