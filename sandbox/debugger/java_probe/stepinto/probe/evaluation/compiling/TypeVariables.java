package stepinto.probe.evaluation.compiling;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.util.HashMap;
import java.util.Map;

/** The type variables of a method and its class, each with what it stands for at least. */
final class TypeVariables {
    /** Nothing is known of any. */
    static final TypeVariables NONE = new TypeVariables();

    private final Map<String, String> bounds = new HashMap<>();

    private TypeVariables() {}

    /** Those that the code of a method sees. */
    static TypeVariables of(Method method) {
        TypeVariables found = new TypeVariables();
        found.add(method.declaringType().genericSignature());
        found.add(method.genericSignature());
        return found;
    }

    /** The class with a wildcard for each of its type variables: {@code Calc<?>}. */
    static String applied(ReferenceType type, String name) {
        TypeVariables own = new TypeVariables();
        own.add(type.genericSignature());
        int count = own.bounds.size();
        if (count == 0) {
            return name;
        }
        StringBuilder text = new StringBuilder(name).append("<?");
        for (int more = 1; more < count; more++) {
            text.append(", ?");
        }
        return text.append('>').toString();
    }

    /** The class that a type variable extends, without type arguments. */
    String bound(String variable) {
        String bound = bounds.get(variable);
        return bound == null ? "Object" : bound;
    }

    /** {@code <T:Ljava/lang/Number;U::Ljava/util/List<TT;>;>}: a class bound, then interfaces. */
    private void add(String signature) {
        if (signature == null || !signature.startsWith("<")) {
            return;
        }
        int at = 1;
        while (signature.charAt(at) != '>') {
            int colon = signature.indexOf(':', at);
            String name = signature.substring(at, colon);
            at = colon;
            String bound = null;
            while (signature.charAt(at) == ':') {
                at++;
                if (signature.charAt(at) != ':') {
                    SourceTypes type = new SourceTypes(signature, at, this);
                    String text = type.type();
                    at = type.end();
                    bound = bound == null ? text.replaceAll("<.*", "") : bound;
                }
            }
            bounds.put(name, bound == null ? "Object" : bound);
        }
    }
}
